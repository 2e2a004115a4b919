"""Seeded changes of valid files: whatever a file holds, Python's readers end in a value or in a DataError."""

import gzip
import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from ferry_tools import token_file
from ferry_tools.chat import chat_sample
from ferry_tools.errors import DataError
from ferry_tools.json_file import read_json
from ferry_tools.make_model import END, train_tokenizer
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.records import PlainText, Records
from ferry_tools.rows import Chat, detect_keys, row_of, value_of
from ferry_tools.samples import Sample
from ferry_tools.templates import NAMED, named_template

INPUTS = int(os.environ.get("FERRY_FUZZ_INPUTS", 3_000))  # of each reader
PIECES = [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"\r", b"\0", b"\xff\xfe", b"\\ud800", b"1e999",
          b"-1", b"null", b'"text":', b"[" * 2000, b"9" * 5000]  # fmt: skip

ROWS = [
    [{"text": "one"}, {"text": "two\u00e9\U0001f600"}],
    [{"prompt": "p", "completion": "c"}, {"prompt": "q", "completion": "d"}],
    [{"question": "q", "answer": "a"}],
    [{"instruction": "i", "input": "", "output": "o"}],
    [{"instruction": "i", "output": "o", "system": "s", "history": [["u", "a"]]}],
    [{"conversations": {"from": ["human", "gpt"], "value": ["u", "a"]}}],
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
            assert str(error).startswith(str(file.parent)), f"seed {seed}, input {number}, kept as {file}: {error}"
            refused += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}, input {number}, kept as {file}: {error!r}") from error
    assert INPUTS / 10 < refused < INPUTS  # else the changes do not reach the reader, or it refuses everything


def read_rows(file: Path) -> None:
    """Every row of a file and what it means."""
    keys = None
    for record in Records(file):
        value = value_of(record)
        keys = keys or detect_keys(record.where, value, None)
        row_of(record.where, value, keys)


def csv_of(rows: list[dict]) -> bytes:
    values = [",".join(f'"{value}"' for value in row.values()) for row in rows]
    return "\r\n".join([",".join(rows[0]), *values]).encode()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("rows.jsonl", lambda rows: "\n".join(map(json.dumps, rows)).encode()),
        ("rows.json", lambda rows: json.dumps(rows).encode()),
        ("rows.csv", csv_of),
        ("rows.csv.gz", lambda rows: gzip.compress(csv_of(rows), mtime=0)),
    ],
)
def test_changed_rows_are_read_or_refused(tmp_path, seed, name, written):
    originals = [written(rows) for rows in ROWS]
    expect_value_or_data_error(originals, tmp_path / name, read_rows, seed)


def test_a_changed_parquet_file_is_read_or_refused(tmp_path, seed):
    import pyarrow
    from pyarrow import parquet

    file = tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({"prompt": ["p", "q"], "completion": ["c", "d"]}), file)
    expect_value_or_data_error([file.read_bytes()], file, read_rows, seed)


@pytest.mark.parametrize("name", ["state.json", "data-00000-of-00001.arrow"])
def test_a_changed_folder_of_datasets_is_read_or_refused(tmp_path, seed, name):
    import pyarrow

    folder = tmp_path / "set"
    folder.mkdir()
    table = pyarrow.table({"prompt": ["p", "q"], "completion": ["c", "d"]})
    with pyarrow.ipc.new_stream(folder / "data-00000-of-00001.arrow", table.schema) as file:
        file.write_table(table)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_indices_data_files": null}')
    expect_value_or_data_error([(folder / name).read_bytes()], folder / name, lambda _: read_rows(folder), seed)


@pytest.mark.parametrize("read", [token_file.read_counts, token_file.read], ids=["counts", "whole"])
def test_a_changed_token_file_is_read_or_refused(tmp_path, seed, read):
    file = tmp_path / "rows.tokens"
    token_file.write(file, 96, 95, b"\1" * 32, [Sample([1, 2, 3], b"\0\1\1"), Sample([4, 95], b"\1\1")])
    expect_value_or_data_error([file.read_bytes()], file, read, seed)


def test_a_changed_text_is_read_or_refused(tmp_path, seed):
    originals = ["one\r\ntwo \u00e9\U0001f600\n".encode(), b"three\n" * 40]
    expect_value_or_data_error(originals, tmp_path / "rows.txt", lambda file: list(PlainText(file)), seed)


def test_a_changed_tokenizer_is_read_or_refused(tmp_path, seed):
    train_tokenizer(["a few words, and some more of them"], 300).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))

    def read(file: Path) -> None:
        ModelTokenizer.load(file.parent).encode_all(["a few words", "\u00e9\U0001f600"])

    file = tmp_path / "tokenizer.json"
    expect_value_or_data_error([file.read_bytes()], file, read, seed)


def test_a_changed_template_is_used_or_refused(tmp_path, seed):
    tokenizer = train_tokenizer(["a few words"], 300)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    turns = [{"role": "user", "content": "few"}, {"role": "assistant", "content": "words"}]

    def read(file: Path) -> None:
        chat_sample(ModelTokenizer.load(file.parent, str(file)), f"{file}:1", Chat(turns))

    originals = [named_template(name, tokenizer).text.encode() for name in NAMED]
    expect_value_or_data_error(originals, tmp_path / "x.jinja", read, seed)


def test_a_changed_json_file_of_a_folder_is_read_or_refused(tmp_path, seed):
    originals = [b'{"eos_token": {"content": "</s>"}, "chat_template": "{{ x }}", "sizes": [1, 2.5, null, true]}', b"[" * 100_000]
    expect_value_or_data_error(originals, tmp_path / "tokenizer_config.json", read_json, seed)
