"""What a row means, and what is refused with its line."""

import pytest

from ferry_tools.errors import DataError
from ferry_tools.records import Records
from ferry_tools.rows import Chat, Completion, Row, Text, detect_keys, row_of, value_of

ANSWER = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


def read_rows(path, text_key=None) -> list[Row]:
    """The rows of a file; the first that cannot be used is raised."""
    keys: tuple[str, ...] = ()
    rows = []
    for record in Records(path):
        value = value_of(record)
        keys = keys or detect_keys(record.where, value, text_key)
        rows.append(row_of(record.where, value, keys))
    return rows


@pytest.mark.parametrize(
    "row, meaning",
    [
        ({"text": "t"}, Text("t")),
        ({"prompt": "p", "completion": "c"}, Completion("p", "c")),
        ({"question": "q", "answer": "a"}, Completion("q\n", "a")),
        ({"messages": ANSWER}, Chat(ANSWER)),
        ({"text": "t", "prompt": "p", "completion": "c"}, Completion("p", "c")),
    ],
)
def test_the_keys_say_what_a_row_means(jsonl, row, meaning):
    assert read_rows(jsonl(row)) == [meaning]


def test_an_instruction_becomes_the_alpaca_prompt(jsonl):
    path = jsonl(
        {"instruction": "Add.", "input": "1 2", "output": "3"}, {"instruction": "Sing.", "output": "La."}
    )
    first, second = read_rows(path)
    assert first.prompt.endswith("### Instruction:\nAdd.\n\n### Input:\n1 2\n\n### Response:\n")
    assert "paired with an input" in first.prompt and first.completion == "3"
    assert "### Input" not in second.prompt and "paired" not in second.prompt


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def test_an_instruction_with_system_or_history_ends_a_conversation(jsonl):
    asked = {"instruction": "Add.", "input": "1 2", "output": "3"}
    path = jsonl(
        {**asked, "history": [["Hi", "Hello"], ["Count.", "1 2"]], "system": "Be short."},
        {**asked, "history": None, "input": ""},
        asked,
    )
    first, second, third = read_rows(path)
    assert first.messages == [
        {"role": "system", "content": "Be short."},
        user("Hi"), assistant("Hello"), user("Count."), assistant("1 2"), user("Add.\n1 2"), assistant("3"),
    ]  # fmt: skip
    assert first.first == 0, "every answer is learned, as in messages"
    assert second == Chat([user("Add."), assistant("3")]) and third == Chat([user("Add.\n1 2"), assistant("3")])
    assert read_rows(jsonl({**asked, "system": ""})) == [third]


def test_what_a_conversation_of_alpacas_has_in_every_row_is_named(jsonl):
    path = jsonl({"instruction": "i", "output": "o", "history": []}, {"instruction": "i"})
    with pytest.raises(DataError, match=":2: 'output' is missing; expected keys instruction, output"):
        read_rows(path)


def test_a_named_text_key_wins(jsonl):
    path = jsonl({"body": "b", "text": "t"})
    assert read_rows(path, "body") == [Text("b")]


def test_crlf_and_a_missing_last_newline_are_accepted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text":"a"}\r\n{"text":"b"}')
    assert [row.text for row in read_rows(path)] == ["a", "b"]


def test_empty_lines_at_the_end_are_no_rows(tmp_path):
    path = tmp_path / "x.jsonl"
    for end in (b"\n", b"\n\n", b"\r\n\r\n", b"\n \t\n\n "):
        path.write_bytes(b'{"text":"a"}\n{"text":"b"}' + end)
        assert [row.text for row in read_rows(path)] == ["a", "b"]


@pytest.mark.parametrize(
    "lines, message",
    [
        (b"", "empty"),
        (b"\n\n", "empty; expected rows"),
        (b'{"text":"a"}\n\r\n\n{"text":"b"}\n', ":2: an empty line"),
        (b'\n{"text":"a"}\n', ":1: an empty line"),
        (b'{"text":"a"}\n{"text":"b"\n', ":2: not JSON at column"),
        (b'{"text":"a"}\n\n{"text":"b"}\n', ":2: an empty line"),
        (b'{"text":"a"}\n["text"]\n', ":2: expected a JSON object, found list"),
        (b'{"text":"a\xff"}\n', ":1: not UTF-8 at byte 11 of the line: found 0xff"),
        (b'{"text":"a\0"}\n', ":1: a NUL byte at column 11"),
        (b'{"text":"\\u0000"}\n', ":1: 'text' holds a NUL"),
        (b'{"text":"\\ud800"}\n', ":1: 'text' holds half of a surrogate pair"),
        (b'{"text":1}\n', ":1: 'text' is int; expected a string"),
        (b'{"text":"a","text":"b"}\n', ":1: not usable JSON: key 'text' appears twice"),
        (b'{"body":"a"}\n', ":1: no known keys; expected one of: messages"),
        (
            b'{"question":"q","answer":"a"}\n{"question":"q"}\n',
            ":2: 'answer' is missing; expected keys question, answer (as in line 1)",
        ),
        (b'{"messages":[]}\n', ":1: 'messages' is empty; expected at least one turn"),
        (b'{"messages":[{"role":"user","content":"x"}]}\n', "nothing to learn"),
        (b'{"messages":[{"role":"user"}]}\n', ":1: turn 1 of 'messages': expected role and content"),
        (b'{"a":' * 100_000, ":1: not usable JSON"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, lines, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines)
    with pytest.raises(DataError) as error:
        read_rows(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)
