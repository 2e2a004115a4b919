"""Seeded changes of valid files: whatever a file holds, Python's readers end in a value or in a DataError."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.rows import read_rows
from ferry_tools.samples import Sample

INPUTS = int(os.environ.get("FERRY_FUZZ_INPUTS", 10_000))  # of each reader
PIECES = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"\r", b"\0", b"\xff\xfe", b"\\ud800", b"1e999",
          b"-1", b"null", b'"text":', b"[" * 2000, b"9" * 5000]  # fmt: skip

ROWS = [
    [{"text": "one"}, {"text": "two\u00e9\U0001f600"}],
    [{"prompt": "p", "completion": "c"}, {"prompt": "q", "completion": "d"}],
    [{"question": "q", "answer": "a"}],
    [{"instruction": "i", "input": "", "output": "o"}],
    [{"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]}],
]


def changed(data: bytes, pick: random.Random) -> bytes:
    """One to four changes: a byte replaced, a range deleted, doubled, moved, or a piece put in."""
    for _ in range(pick.randint(1, 4)):
        if not data:
            return data
        at = pick.randrange(len(data))
        part = data[at : at + pick.randint(1, 20)]
        without = data[:at] + data[at + len(part) :]
        move = pick.randrange(len(without) + 1)
        data = pick.choice(
            [
                data[:at] + bytes([pick.randrange(256)]) + data[at + 1 :],
                without,
                data[:at] + part + data[at:],
                without[:move] + part + without[move:],
                data[:at] + pick.choice(PIECES) + data[at:],
            ]
        )
    return data


def expect_value_or_data_error(originals: list[bytes], file: Path, read: Callable[[Path], object], seed: int) -> None:
    """Reads INPUTS changed files; the error that stops this names the seed, the round and the file kept."""
    refused = 0
    for number in range(INPUTS):
        pick = random.Random(f"{seed} {number}")
        file.write_bytes(changed(pick.choice(originals), pick))
        try:
            read(file)
        except DataError as error:
            assert str(error).startswith(str(file)), f"seed {seed}, input {number}, kept as {file}: {error}"
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}, kept as {file}: {error!r}") from error
    assert INPUTS / 10 < refused < INPUTS  # else the changes do not reach the reader, or it refuses everything


def test_changed_rows_are_read_or_refused(tmp_path, seed):
    originals = ["\n".join(map(json.dumps, rows)).encode() for rows in ROWS]
    expect_value_or_data_error(originals, tmp_path / "rows.jsonl", lambda file: list(read_rows(file, None)), seed)


@pytest.mark.parametrize("read", [token_file.read_counts, token_file.read], ids=["counts", "whole"])
def test_a_changed_token_file_is_read_or_refused(tmp_path, seed, read):
    file = tmp_path / "rows.tokens"
    token_file.write(file, 96, 95, b"\1" * 32, [Sample([1, 2, 3], b"\0\1\1"), Sample([4, 95], b"\1\1")])
    expect_value_or_data_error([file.read_bytes()], file, read, seed)
