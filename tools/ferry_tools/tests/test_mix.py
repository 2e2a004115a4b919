"""Weights: how often the rows of a file come."""

from collections import Counter
from pathlib import Path

import pytest

from ferry_tools import mix, token_file
from ferry_tools.errors import DataError
from ferry_tools.mix import Part, mixed_file
from ferry_tools.samples import Sample


def tokens_of(folder: Path, name: str, first: int, rows: int) -> Path:
    path = folder / f"{name}.tokens"
    token_file.write(path, 1000, 0, bytes(32), [Sample([first + row, 0], b"\0\1") for row in range(rows)])
    return path


def firsts(path: Path) -> list[int]:
    return [sample.ids[0] for sample in token_file.read(path).samples]


def test_rows_come_as_often_as_their_weight_says(tmp_path):
    a, b = tokens_of(tmp_path, "a", 100, 10), tokens_of(tmp_path, "b", 200, 40)
    path, held_out = mixed_file([Part(a, 2.5), Part(b, 0.25)], 0, tmp_path)
    found = Counter(firsts(path))
    assert held_out == 0
    assert sorted(found[100 + row] for row in range(10)) == [2] * 5 + [3] * 5
    assert sum(found[200 + row] for row in range(40)) == 10 and max(found[200 + row] for row in range(40)) == 1
    assert firsts(path)[:10] == list(range(100, 110))


def test_held_out_rows_are_the_last_of_each_file_and_come_nowhere_else(tmp_path):
    a, b = tokens_of(tmp_path, "a", 100, 10), tokens_of(tmp_path, "b", 200, 20)
    path, held_out = mixed_file([Part(a, 3), Part(b, 1)], 0.1, tmp_path)
    rows = firsts(path)
    assert held_out == 3 and rows[-3:] == [109, 218, 219]
    assert not set(rows[:-3]) & set(rows[-3:]) and len(rows) == 3 * 9 + 18 + 3


def test_drawn_rows_are_the_same_every_time():
    assert mix.drawn_rows(12, 0.5).tolist() == [2, 4, 5, 6, 8, 10]


def test_one_file_of_weight_1_is_itself(tmp_path):
    a = tokens_of(tmp_path, "a", 100, 10)
    assert mixed_file([Part(a)], 0.25, tmp_path) == (a, 2)


def test_a_mix_is_made_once_and_again_when_weights_or_contents_change(tmp_path):
    a, b = tokens_of(tmp_path, "a", 100, 10), tokens_of(tmp_path, "b", 200, 10)
    first, _ = mixed_file([Part(a), Part(b)], 0, tmp_path)
    assert mixed_file([Part(a), Part(b)], 0, tmp_path)[0] == first
    assert mixed_file([Part(a), Part(b, 2)], 0, tmp_path)[0] != first
    tokens_of(tmp_path, "b", 300, 10)  # equal counts and header
    assert mixed_file([Part(a), Part(b)], 0, tmp_path)[0] != first


def test_weights_that_leave_nothing_and_tokens_of_two_tokenizers_are_refused(tmp_path):
    a = tokens_of(tmp_path, "a", 100, 10)
    with pytest.raises(DataError, match="leave no row"):
        mixed_file([Part(a, 0.01)], 0, tmp_path)
    token_file.write(tmp_path / "b.tokens", 7, 0, bytes(32), [Sample([5, 0], b"\0\1")])
    with pytest.raises(DataError, match="another tokenizer"):
        mixed_file([Part(a), Part(tmp_path / "b.tokens")], 0, tmp_path)


def test_rows_are_drawn_by_the_outputs_of_splitmix64_from_the_state_0():
    # The first five: e220a839..., 6e789e6a..., 06c45d18..., f88bb8a8..., 1b39896a...
    assert mix.drawn_rows(5, 0.4).tolist() == [2, 4]
