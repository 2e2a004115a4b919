"""Says what a row is: text, a prompt with its completion, or a conversation.

What the rows of a file mean is read off the keys of its first row; every later row must have the same keys.
"""

import json
from dataclasses import dataclass

from ferry_tools.alpaca import BEFORE_INSTRUCTION, alpaca_messages, alpaca_prompt
from ferry_tools.conversations import messages_of, tools_of
from ferry_tools.errors import DataError, RowError
from ferry_tools.records import Record, not_an_object, unique_keys
from ferry_tools.strings import found_keys, string_of


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
    """The assistant's turns are learned, from `first` on, but those of the weight 0."""

    messages: list[dict]
    first: int = 0
    tools: list[dict] | None = None

    @property
    def answers(self) -> list[int]:
        """Where the assistant speaks, from `first` on."""
        places = range(self.first, len(self.messages))
        return [place for place in places if self.messages[place]["role"] == "assistant"]

    def learns(self, place: int) -> bool:
        return self.messages[place].get("weight") != 0


Row = Text | Completion | Chat

# The first set that the first row has decides.
KINDS = [
    ("messages",),
    ("conversations",),
    ("prompt", "completion"),
    ("question", "answer"),
    *(("instruction", "output", before) for before in BEFORE_INSTRUCTION),
    ("instruction", "output"),
    ("text",),
]


def value_of(record: Record) -> dict:
    """The row as an object. Raises RowError when it is none."""
    if isinstance(record.value, RowError):
        raise record.value
    if isinstance(record.value, dict):
        return record.value
    return parse_object(record.where, decode_line(record.where, record.value))


def decode_line(where: str, line: bytes) -> str:
    """Decodes UTF-8 without NUL. Raises RowError with the column of what is neither."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if b"\0" in line:
        raise RowError(f"{where}: a NUL byte at column {line.index(0) + 1}; expected text")
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise RowError(
            f"{where}: not UTF-8 at byte {error.start + 1} of the line: "
            f"found 0x{line[error.start]:02x}; save the file as UTF-8"
        ) from None


def parse_object(where: str, text: str) -> dict:
    """Parses one line. Raises RowError when it is not a JSON object."""
    if not text.strip():
        raise RowError(f"{where}: an empty line; expected a JSON object")
    try:
        value = json.loads(text, object_pairs_hook=unique_keys)
    except json.JSONDecodeError as error:
        raise RowError(f"{where}: not JSON at column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise RowError(f"{where}: not usable JSON: {error}") from None
    if not isinstance(value, dict):
        raise not_an_object(where, value)
    return value


def detect_keys(where: str, first: dict, text_key: str | None) -> tuple[str, ...]:
    """The keys that say what a row is, read off the first row."""
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


def row_of(where: str, value: dict, keys: tuple[str, ...]) -> Row:
    """What the row means. docs/formats/data.md states how prompts are joined."""
    required = keys[:2]  # what may come before an instruction is the third
    for key in required:
        if key not in value:
            raise RowError(
                f"{where}: '{key}' is missing; expected keys {', '.join(required)} (as in line 1); "
                f"found {found_keys(value)}"
            )
    if keys in (("messages",), ("conversations",)):
        return conversation(where, value, messages_of(where, keys[0], value[keys[0]]))
    if keys == ("prompt", "completion"):
        return prompt_and_completion(where, value)
    if keys == ("question", "answer"):
        return Completion(string_of(where, value, "question") + "\n", string_of(where, value, "answer"))
    if keys == ("instruction", "output"):
        return Completion(alpaca_prompt(where, value), string_of(where, value, "output"))
    if required == ("instruction", "output"):
        return conversation(where, value, alpaca_messages(where, value))
    return Text(string_of(where, value, keys[0]))


def conversation(where: str, value: dict, messages: list[dict], first: int = 0) -> Chat:
    """A conversation with what stands beside it in the row: `system`, `tools`."""
    if value.get("system"):
        messages = [{"role": "system", "content": string_of(where, value, "system")}, *messages]
        first += 1 if first else 0
    chat = Chat(messages, first, tools_of(where, value))
    if not chat.answers:
        raise RowError(f"{where}: no turn has the role assistant (ShareGPT: gpt): nothing to learn")
    if not any(map(chat.learns, chat.answers)):
        raise RowError(f"{where}: every turn of the assistant has the weight 0: nothing to learn")
    return chat


def prompt_and_completion(where: str, value: dict) -> Row:
    """Both texts, or both lists of messages."""
    prompt, completion = value["prompt"], value["completion"]
    turns = (list, dict)
    if isinstance(prompt, turns) != isinstance(completion, turns):
        raise RowError(
            f"{where}: 'prompt' is {type(prompt).__name__} and 'completion' is {type(completion).__name__}; "
            "expected two texts or two lists of messages"
        )
    if not isinstance(prompt, turns):
        return Completion(string_of(where, value, "prompt"), string_of(where, value, "completion"))
    asked = messages_of(where, "prompt", prompt)
    return conversation(where, value, asked + messages_of(where, "completion", completion), len(asked))
