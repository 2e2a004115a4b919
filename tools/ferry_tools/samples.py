"""From rows to samples: ids with a flag each that says whether the id is learned.

The rules are public: docs/formats/data.md states them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ferry_tools.chat import chat_sample
from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.rows import Chat, Completion, Line, Text, read_rows

ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Sample:
    ids: list[int]
    learned: bytes  # 0 or 1 per id


def text_sample(tokens: ModelTokenizer, ids: list[int]) -> Sample:
    """Everything is learned, the end token too."""
    ids = with_begin(tokens, ids)
    ids = with_end(tokens, ids)
    return Sample(ids, b"\1" * len(ids))


def with_begin(tokens: ModelTokenizer, ids: list[int]) -> list[int]:
    begin = tokens.begin_tokens
    return ids if ids[: len(begin)] == begin else begin + ids


def with_end(tokens: ModelTokenizer, ids: list[int]) -> list[int]:
    return ids if ids[-1:] == [tokens.end_token] else ids + [tokens.end_token]


def completion_sample(
    tokens: ModelTokenizer, prompt: list[int], completion: list[int], joined: list[int]
) -> Sample:
    """The completion and the end token are learned.

    The prompt's ids are those of the prompt alone, since that is what the model will be given. The
    completion's are those it has after the prompt, unless the tokenizer merged across the border.
    """
    if joined[: len(prompt)] == prompt:
        completion = joined[len(prompt) :]
    completion = with_end(tokens, completion)
    prompt = with_begin(tokens, prompt)
    return Sample(prompt + completion, bytes(len(prompt)) + b"\1" * len(completion))


def samples_of(tokens: ModelTokenizer, lines: Iterable[Line]) -> Iterator[Sample]:
    """Tokenises rows, many at a time."""
    remaining = iter(lines)
    while group := list(islice(remaining, ROWS_AT_ONCE)):
        first = group[0].row
        if isinstance(first, Text):
            for ids in tokens.encode_all([line.row.text for line in group]):
                yield text_sample(tokens, ids)
        elif isinstance(first, Completion):
            prompts = tokens.encode_all([line.row.prompt for line in group])
            completions = tokens.encode_all([line.row.completion for line in group])
            joined = tokens.encode_all([line.row.prompt + line.row.completion for line in group])
            for parts in zip(prompts, completions, joined, strict=True):
                yield completion_sample(tokens, *parts)
        elif isinstance(first, Chat):
            for line in group:
                yield Sample(*chat_sample(tokens, line.where, line.row.messages))


def plain_text_samples(tokens: ModelTokenizer, path: Path, sequence: int) -> Iterator[Sample]:
    """A plain text is one document, cut into consecutive samples of `sequence` tokens."""
    data = path.read_bytes()
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(f"{path}:{line}: not UTF-8: found 0x{data[error.start]:02x}") from None
    if "\0" in text:
        raise DataError(f"{path}:{text[: text.index(chr(0))].count(chr(10)) + 1}: a NUL byte; expected text")
    if not text:
        raise DataError(f"{path}: empty; expected text")
    whole = text_sample(tokens, tokens.encode_all([text.replace("\r\n", "\n")])[0])
    for start in range(0, len(whole.ids), sequence):
        yield Sample(whole.ids[start : start + sequence], whole.learned[start : start + sequence])


def read_samples(tokens: ModelTokenizer, path: Path, text_key: str | None, sequence: int) -> Iterator[Sample]:
    """The samples of a .txt or JSONL file."""
    if path.suffix == ".txt":
        return plain_text_samples(tokens, path, sequence)
    return samples_of(tokens, read_rows(path, text_key))
