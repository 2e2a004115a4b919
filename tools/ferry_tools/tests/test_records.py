"""The same rows from every format, and what is wrong with one named."""

import csv
import gzip
import json
import tracemalloc

import pyarrow
import pyarrow.parquet
import pytest

from ferry_tools import records
from ferry_tools.errors import DataError, RowError
from ferry_tools.records import PlainText, Records
from ferry_tools.rows import row_of, value_of

ROWS = [{"question": f"{n} + 1?", "answer": f"It is\n{n + 1}, \u00e9."} for n in range(2500)]
FORMATS = ["x.jsonl", "x.json", "x.csv", "x.parquet", "x.jsonl.gz", "x.json.gz", "x.csv.GZ"]
CHATS = [{"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": str(n)}]} for n in range(3)]

PACKED = gzip.compress("\n".join(f"{n},{n * n}" for n in range(1000)).encode(), mtime=0)


def save_to_disk(folder, rows) -> None:
    """What `datasets` writes: streams of Arrow batches and state.json."""
    folder.mkdir()
    names = []
    for shard in range(2):
        table = pyarrow.Table.from_pylist(rows[shard::2])
        names.append({"filename": f"data-0000{shard}-of-00002.arrow"})
        with pyarrow.ipc.new_stream(str(folder / names[-1]["filename"]), table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    (folder / "state.json").write_text(json.dumps({"_data_files": names, "_fingerprint": "x", "_split": "train"}))
    (folder / "dataset_info.json").write_text("{}")


def write(path, rows) -> None:
    match path.suffix:
        case ".gz" | ".GZ":
            write(path.with_suffix(""), rows)
            path.write_bytes(gzip.compress(path.with_suffix("").read_bytes()))
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case ".json":
            path.write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
        case ".csv":
            with path.open("w", newline="", encoding="utf-8-sig") as file:
                writer = csv.DictWriter(file, rows[0].keys())
                writer.writeheader()
                writer.writerows(rows)
        case ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=700)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path, name, monkeypatch):
    monkeypatch.setattr(records, "JSON_PIECE", 1000)  # of an array, several
    write(tmp_path / name, ROWS)
    source = Records(tmp_path / name)
    assert [value_of(record) for record in source] == ROWS
    assert 0.9 < source.fraction <= 1


def test_a_folder_of_datasets_gives_its_shards_one_after_the_other(tmp_path):
    save_to_disk(tmp_path / "set", ROWS)
    assert [value_of(record) for record in Records(tmp_path / "set")] == ROWS[::2] + ROWS[1::2]


def test_conversations_come_out_of_columns_as_they_went_in(tmp_path):
    write(tmp_path / "x.parquet", CHATS)
    assert [value_of(record) for record in Records(tmp_path / "x.parquet")] == CHATS


def calling(name: str, arguments: dict, parameters: dict | None) -> dict:
    function = {"name": name, **({} if parameters is None else {"parameters": parameters})}
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    turns = [{"role": "user", "content": "u"}, {"role": "assistant", "tool_calls": [call]}]
    return {"messages": turns, "tools": [{"type": "function", "function": function}]}


CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "enum": [1, 2]}}}
CALLS = [
    calling("w", {"city": "X"}, CITY),
    calling("v", {"n": 3, "more": [{"a": 1}, {"b": 2}]}, NUMBER),
    calling("none", {}, None),
    {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], "tools": None},
]


def for_templates(value: dict) -> str:
    """What templates are given of a row, and its order."""
    chat = row_of("d:1", value, ("messages",))
    return json.dumps([chat.messages, chat.tools])


def test_tools_and_calls_come_out_of_columns_as_they_went_in(tmp_path):
    """A column's objects have the keys of all its objects."""
    write(tmp_path / "x.parquet", CALLS)
    save_to_disk(tmp_path / "set", [CALLS[0], CALLS[0], CALLS[1], CALLS[1]])
    given = [for_templates(value) for value in CALLS]
    assert [for_templates(value_of(record)) for record in Records(tmp_path / "x.parquet")] == given
    in_shards = [for_templates(value_of(record)) for record in Records(tmp_path / "set")]
    assert in_shards == [given[0], given[1], given[0], given[1]]
    turns = value_of(next(iter(Records(tmp_path / "x.parquet"))))["messages"]
    assert turns[0]["tool_calls"] is None, "what is null elsewhere is for rows.py"


def test_turns_of_a_sequence_column_come_out_of_a_folder_of_datasets(tmp_path):
    """`Sequence({"from": ..., "value": ...})` is stored as a list per key."""
    lists = [{"from": ["human", "gpt"], "value": ["u", str(n)]} for n in range(2)]
    save_to_disk(tmp_path / "set", [{"conversations": one} for one in lists])
    rows = [row_of(record.where, value_of(record), ("conversations",)) for record in Records(tmp_path / "set")]
    assert [row.messages[1] for row in rows] == [{"role": "assistant", "content": str(n)} for n in range(2)]


def test_a_row_above_the_limit_is_one_record_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_LIMIT", 1 << 20)
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a"}\n{"text": "' + "b" * (3 << 20) + '"}\n{"text": "c"}\n')
    first, second, third = Records(path)
    assert value_of(first) == {"text": "a"} and value_of(third) == {"text": "c"}
    assert str(second.value) == f"{path}:2: longer than 1 MiB, the most that a row may have; split it"


def test_a_packed_row_above_the_limit_is_never_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "ROW_LIMIT", 1 << 20)
    path = tmp_path / "x.jsonl.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(64):
            file.write(b"b" * (1 << 20))
        file.write(b'\n{"text": "c"}\n')
    tracemalloc.start()
    first, second = Records(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "x.jsonl.gz:1: longer than 1 MiB" in str(first.value) and value_of(second) == {"text": "c"}
    assert most < 8 << 20


def test_a_packed_text_is_the_text(tmp_path):
    for content in (b"a\r\nb\xc3\xa9", b""):
        (tmp_path / "x.txt.gz").write_bytes(gzip.compress(content))
        text = PlainText(tmp_path / "x.txt.gz")
        if content:
            assert "".join(text) == "a\nb\u00e9" and text.fraction == 1
        else:
            with pytest.raises(DataError, match="x.txt.gz: empty; expected text"):
                list(text)


def test_a_csv_row_of_another_length_is_named(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"prompt,completion\na,b\nc\n\xff,d\n")
    first, second, third = Records(tmp_path / "x.csv")
    assert value_of(first) == {"prompt": "a", "completion": "b"}
    assert "x.csv: row 2: 1 values; expected 2" in str(second.value) and isinstance(second.value, RowError)
    assert "x.csv: row 3: not UTF-8" in str(third.value)


def test_columns_of_a_csv_file_may_lack_a_name(tmp_path):
    (tmp_path / "x.csv").write_text("text,,\na,,\n")
    assert [value_of(record)["text"] for record in Records(tmp_path / "x.csv")] == ["a"]


@pytest.mark.parametrize("size", range(1, 40))
def test_an_array_may_be_read_in_pieces_of_any_size(tmp_path, monkeypatch, size):
    monkeypatch.setattr(records, "JSON_PIECE", size)
    (tmp_path / "x.json").write_text('[ {"a": 1} , {"b": "],["}\n,{} ]\n \n')
    assert [record.value for record in Records(tmp_path / "x.json")] == [{"a": 1}, {"b": "],["}, {}]


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("x.json", b'[{"text": "a"}, {"text"', "x.json: row 2: not JSON"),
        ("x.json", b"[]", "x.json: empty; expected rows"),
        ("x.json", b'[{"text": "a"}, ]', "x.json: behind row 1: not JSON: a comma, and no row behind it; remove"),
        ("x.json", b'[,{"text": "a"}]', "x.json: row 1: not JSON: Expecting value"),
        ("x.json", b'[{"text": "a"},, {"text": "b"}]', "x.json: row 2: not JSON: Expecting value"),
        ("x.json", b'[{"text": "a"} {"text": "b"}]', "x.json: behind row 1: not JSON: expected a comma, found '{'"),
        ("x.json", b'[{"text": "a"}]\n[{"text": "b"}]', "x.json: not JSON: '[{\"text\": \"b\"}]' stands behind"),
        ("x.csv", b"", "x.csv: empty; expected rows"),
        ("x.csv", b'a,b\n"c,d\n', "x.csv:2: not CSV"),
        ("x.csv", b"a,text,text\n1,2,3\n", "x.csv: the header has the column 'text' twice; rename or remove one of"),
        ("x.jsonl.gz", b'{"text": "a"}', "x.jsonl.gz: cannot be unpacked: Not a gzipped file (b'{\"'); expected gzip"),
        ("x.json.gz", gzip.compress(b'[{"text": "a"}]')[:-4], "x.json.gz: cannot be unpacked: Compressed file ended"),
        ("x.csv.gz", PACKED[:30] + b"\0\0\0\0" + PACKED[34:], "x.csv.gz: cannot be unpacked: Error -3"),
        ("x.jsonl.gz", b"", "x.jsonl.gz: empty; expected rows"),
        ("x.parquet", b"PAR1 no", "x.parquet: not a Parquet file that can be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        list(Records(tmp_path / name))
    assert message in str(error.value)


def test_a_json_row_that_is_no_object_is_named(tmp_path):
    (tmp_path / "x.json").write_text('[{"text": "a"}, 3]')
    assert "x.json: row 2: expected a JSON object, found int" in str(list(Records(tmp_path / "x.json"))[1].value)


def test_a_data_set_of_several_splits_names_them(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match=f"name one: {tmp_path}/train, {tmp_path}/test"):
        list(Records(tmp_path))


def test_a_folder_of_something_else_is_refused(tmp_path):
    with pytest.raises(DataError, match="without state.json"):
        list(Records(tmp_path))
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "../x"}]}')
    with pytest.raises(DataError, match="outside of its folder"):
        list(Records(tmp_path))
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "x.arrow"}]}')
    with pytest.raises(DataError, match="x.arrow: no such file, which state.json names"):
        list(Records(tmp_path))
