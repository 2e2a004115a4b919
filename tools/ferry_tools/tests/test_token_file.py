"""A damaged token file is refused in words, whatever of it is damaged."""

import struct
import tracemalloc

import numpy
import pytest

from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.preview import preview
from ferry_tools.samples import Sample

SAMPLES = [Sample([5, 7, 2], b"\0\1\1"), Sample([3, 2], b"\0\1")]  # those of docs/formats/tokens.md
SIZE = 80 + 8 * 3 + 5 * 5


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "x.tokens"
    token_file.write(made, 8, 2, bytes(32), SAMPLES)
    return made


def put(path, place: int, form: str, *values: int) -> None:
    data = bytearray(path.read_bytes())
    struct.pack_into(form, data, place, *values)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "place, form, value, reason",
    [
        (0, "<8s", b"FERRYTAK", "not a token file: wrong first bytes"),
        (8, "<I", 2, "token file version 2, expected 1; tokenise the data again"),
        (16, "<I", 8, "damaged: its end token is outside its vocabulary: id 8, expected below 8"),
        (20, "<I", 9, "damaged: its reserved field is 9, expected 0"),
        (24, "<Q", 0, "damaged: 0 samples of 5 tokens in all"),
        (24, "<Q", 1 << 63, f"damaged: {1 << 63} samples of 5 tokens in all"),
        (24, "<Q", 1 << 31, f"{1 << 31} samples; ferry takes at most 2147483647"),
        (24, "<Q", 3, f"damaged: {SIZE} bytes, its header says {SIZE + 8}"),
        (32, "<Q", 6, f"damaged: {SIZE} bytes, its header says {SIZE + 5}"),
        (80, "<Q", 1, "damaged: its samples do not cover its tokens: from 1 to 5, expected from 0 to 5"),
        (96, "<Q", 6, "damaged: its samples do not cover its tokens: from 0 to 6, expected from 0 to 5"),
        (88, "<Q", 0, "damaged: sample 0 is empty or out of order: from 0 to 0, expected a later end"),
        (88, "<Q", 9, "damaged: sample 1 is empty or out of order: from 9 to 5, expected a later end"),
    ],
)
def test_damage_of_header_and_offsets_is_named(path, place, form, value, reason):
    put(path, place, form, value)
    for read in (token_file.read_counts, token_file.read):
        with pytest.raises(DataError) as refused:
            read(path)
        assert str(refused.value) == f"{path}: {reason}"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ([(12, "<II", 0, token_file.NO_TOKEN)], "token 0 has id 5, its vocabulary is 0"),
        ([(12, "<I", 6)], "token 1 has id 7, its vocabulary is 6"),
        ([(116, "<I", 8)], "token 3 has id 8, its vocabulary is 8"),
        ([(40, "<Q", 4)], "its count of learned tokens is wrong: found 4, expected 3 by its flags"),
        ([(126, "<B", 2)], "a learn flag is neither 0 nor 1: that of token 2 is 2"),
    ],
)
@pytest.mark.parametrize("at_once", [1 << 20, 2])
def test_damage_of_ids_and_flags_is_named(path, monkeypatch, changes, reason, at_once):
    monkeypatch.setattr(token_file, "VALUES_AT_ONCE", at_once)
    for change in changes:
        put(path, *change)
    with pytest.raises(DataError) as refused:
        token_file.read(path)
    assert str(refused.value) == f"{path}: damaged: {reason}"


def test_a_file_that_was_cut_is_refused_wherever_that_was(path):
    whole = path.read_bytes()
    for length in [*range(len(whole)), len(whole) + 1]:
        path.write_bytes((whole + b"x")[:length])
        what = "damaged" if length >= 80 else "not a token file"
        with pytest.raises(DataError, match=f"x.tokens: {what}: {length} bytes, "):
            token_file.read_counts(path)


def test_a_sound_file_is_read_in_any_pieces(path, monkeypatch):
    for at_once in (1, 2, 3, 100):
        monkeypatch.setattr(token_file, "VALUES_AT_ONCE", at_once)
        assert token_file.read(path).samples == SAMPLES
        assert token_file.read_counts(path).longest == 3


def test_checking_takes_no_memory_of_the_size_of_the_file(tmp_path):
    path, count = tmp_path / "x.tokens", 4 << 20
    header = token_file.HEADER.pack(token_file.MAGIC, 1, 8, 2, 0, count, count, 0, bytes(32))
    path.write_bytes(header + numpy.arange(count + 1, dtype="<u8").tobytes() + bytes(5 * count))
    tracemalloc.start()
    try:
        assert token_file.read(path).offsets[-1] == count
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


def test_preview_refuses_what_training_refuses(ferry_tools, nano, path):
    put(path, 88, "<Q", 9)
    process = ferry_tools("preview", path, "--model", nano)
    assert process.returncode == 2 and process.stdout == ""
    assert process.stderr == f"{path}: damaged: sample 1 is empty or out of order: from 9 to 5, expected a later end\n"


def test_preview_refuses_ids_that_the_model_does_not_have(nano, path):
    put(path, 12, "<I", 100_000)
    with pytest.raises(DataError, match="x.tokens: vocabulary of 100000 ids, the model's has [0-9]+; tokenise with"):
        preview(path, nano, 8, 1, repeats=False)


def test_a_file_without_end_token_is_said_to_have_none(nano, path):
    put(path, 16, "<I", token_file.NO_TOKEN)
    with pytest.raises(DataError, match=r"no answer ends in the end token \(none\)"):
        preview(path, nano, 8, 1, repeats=False)
