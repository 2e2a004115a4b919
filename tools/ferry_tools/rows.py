"""Reads JSONL and says what each row is: text, a prompt with its completion, or a conversation.

What a row means is read off the keys of line 1; every later row must have the same keys.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ferry_tools.errors import DataError

BOM = b"\xef\xbb\xbf"

ALPACA = "Below is an instruction that describes a task."
ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context."
)
ALPACA_END = " Write a response that appropriately completes the request.\n\n"


@dataclass(frozen=True)
class Text:
    """Learned entirely."""

    text: str


@dataclass(frozen=True)
class Completion:
    """The prompt is read, the completion is learned."""

    prompt: str
    completion: str


@dataclass(frozen=True)
class Chat:
    """The assistant's turns are learned."""

    messages: list[dict]


Row = Text | Completion | Chat

# The first set that line 1 has decides; `input` of the last one may be missing or empty.
KINDS = [
    ("messages",),
    ("prompt", "completion"),
    ("question", "answer"),
    ("instruction", "output"),
    ("text",),
]


@dataclass(frozen=True)
class Line:
    """A row and where it stands, as `file:line`."""

    where: str
    row: Row


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yields ('file:line', text) for every line; the last newline may be missing."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            where = f"{path}:{number}"
            yield where, decode_line(where, line.removeprefix(BOM) if number == 1 else line)
    if number == 0:
        raise DataError(f"{path}: empty; expected one JSON object per line")


def decode_line(where: str, line: bytes) -> str:
    """Decodes UTF-8 without NUL. Raises DataError with the column of what is neither."""
    if b"\0" in line:
        raise DataError(f"{where}: a NUL byte at column {line.index(0) + 1}; expected text")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where}: not UTF-8 at byte {error.start + 1} of the line: "
            f"found 0x{line[error.start]:02x}; save the file as UTF-8"
        ) from None


def unique_keys(pairs: list[tuple[str, object]]) -> dict:
    """A JSON object as a dict. Raises ValueError when a key appears twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key '{twice}' appears twice")
    return found


def parse_object(where: str, text: str) -> dict:
    """Parses one line. Raises DataError when it is not a JSON object."""
    if not text.strip():
        raise DataError(f"{where}: an empty line; expected a JSON object")
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not usable JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def detect_keys(where: str, first: dict, text_key: str | None) -> tuple[str, ...]:
    """The keys that say what a row is, read off line 1."""
    if text_key is not None:
        if text_key not in first:
            raise DataError(f"{where}: '{text_key}' (data.text_key) is missing; found {found_keys(first)}")
        return (text_key,)
    for keys in KINDS:
        if all(key in first for key in keys):
            return keys
    expected = "; ".join(", ".join(keys) for keys in KINDS)
    raise DataError(
        f"{where}: no known keys; expected one of: {expected}; found {found_keys(first)}; "
        "or name the text's key as data.text_key"
    )


def found_keys(value: dict) -> str:
    return ", ".join(value) or "no keys"


def string_of(where: str, value: dict, key: str) -> str:
    """The string under `key`. Raises DataError when it is something else."""
    if not isinstance(value[key], str):
        raise DataError(f"{where}: '{key}' is {type(value[key]).__name__}; expected a string")
    text = value[key]
    if "\0" in text:
        raise DataError(f"{where}: '{key}' holds a NUL character; expected text")
    if any("\ud800" <= c <= "\udfff" for c in text):
        raise DataError(f"{where}: '{key}' holds half of a surrogate pair; expected text")
    return text


def messages_of(where: str, messages: object) -> list[dict]:
    """Checks a conversation: a list of {role, content}, with an assistant's turn in it."""
    if not isinstance(messages, list) or not messages:
        raise DataError(f"{where}: 'messages' is not a list of turns")
    for number, turn in enumerate(messages, 1):
        if not isinstance(turn, dict) or "role" not in turn or "content" not in turn:
            raise DataError(f"{where}: turn {number} of 'messages': expected role and content")
        string_of(where, turn, "role")
        string_of(where, turn, "content")
    if all(turn["role"] != "assistant" for turn in messages):
        raise DataError(f"{where}: 'messages' has no turn with role assistant: nothing to learn")
    return messages


def row_of(where: str, value: dict, keys: tuple[str, ...]) -> Row:
    """What the row means. docs/formats/data.md states how prompts are joined."""
    for key in keys:
        if key not in value:
            raise DataError(f"{where}: '{key}' is missing; expected keys {', '.join(keys)} (as in line 1)")
    if keys == ("messages",):
        return Chat(messages_of(where, value["messages"]))
    if keys == ("prompt", "completion"):
        return Completion(string_of(where, value, "prompt"), string_of(where, value, "completion"))
    if keys == ("question", "answer"):
        return Completion(string_of(where, value, "question") + "\n", string_of(where, value, "answer"))
    if keys == ("instruction", "output"):
        return Completion(alpaca_prompt(where, value), string_of(where, value, "output"))
    return Text(string_of(where, value, keys[0]))


def alpaca_prompt(where: str, value: dict) -> str:
    """The prompt that Stanford Alpaca was trained with."""
    instruction = string_of(where, value, "instruction")
    given = string_of(where, value, "input") if value.get("input") else ""
    start = (ALPACA_WITH_INPUT if given else ALPACA) + ALPACA_END
    middle = f"### Instruction:\n{instruction}\n\n"
    return start + middle + (f"### Input:\n{given}\n\n" if given else "") + "### Response:\n"


def read_rows(path: Path, text_key: str | None) -> Iterator[Line]:
    """Yields the rows of a JSONL file."""
    keys: tuple[str, ...] = ()
    for where, text in read_lines(path):
        value = parse_object(where, text)
        keys = keys or detect_keys(where, value, text_key)
        yield Line(where, row_of(where, value, keys))
