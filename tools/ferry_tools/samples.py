"""From rows to samples: ids with a flag each that says whether the id is learned.

The rules are public: docs/formats/data.md states them.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ferry_tools.chat import chat_sample
from ferry_tools.errors import DataError, RowError
from ferry_tools.long_text import PIECE, encode_pieces
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.records import Record
from ferry_tools.rows import Chat, Completion, Row, Text, row_of, value_of


@dataclass(frozen=True)
class Sample:
    ids: Sequence[int]
    learned: bytes  # 0 or 1 per id


@dataclass
class Samples:
    """Samples one after the other, and the rows that made none."""

    lengths: array = field(default_factory=lambda: array("Q"))
    ids: array = field(default_factory=lambda: array("I"))
    learned: bytearray = field(default_factory=bytearray)
    refused: list[RowError] = field(default_factory=list)

    def add(self, sample: Sample) -> None:
        self.lengths.append(len(sample.ids))
        self.ids.extend(sample.ids)
        self.learned += sample.learned


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


@dataclass(frozen=True)
class RowRules:
    """Makes samples of a file's rows, which all have the same keys."""

    tokens: ModelTokenizer
    keys: tuple[str, ...]

    def samples_of(self, records: Iterable[Record]) -> Samples:
        """The samples of these records in their order, and what was refused among them."""
        made = Samples()
        rows: list[tuple[str, Row]] = []
        for record in records:
            try:
                rows.append((record.where, row_of(record.where, value_of(record), self.keys)))
            except RowError as error:
                made.refused.append(error)
        texts = iter(self._encoded([row for _, row in rows if not isinstance(row, Chat)]))
        for where, row in rows:
            try:
                made.add(Sample(*chat_sample(self.tokens, where, row)) if isinstance(row, Chat) else next(texts))
            except RowError as error:
                made.refused.append(error)
        return made

    def _encoded(self, rows: list[Text | Completion]) -> Iterator[Sample]:
        """Texts are encoded many at a time: those of each kind."""
        texts = [row for row in rows if isinstance(row, Text)]
        for ids in self.tokens.encode_all([row.text for row in texts]):
            yield text_sample(self.tokens, ids)
        pairs = [row for row in rows if isinstance(row, Completion)]
        prompts = self.tokens.encode_all([row.prompt for row in pairs])
        completions = self.tokens.encode_all([row.completion for row in pairs])
        joined = self.tokens.encode_all([row.prompt + row.completion for row in pairs])
        for parts in zip(prompts, completions, joined, strict=True):
            yield completion_sample(self.tokens, *parts)


def text_of(path: Path) -> Iterator[str]:
    """A plain text in pieces, CRLF as a newline. Raises DataError that names the line of what is no text."""
    line, held = 1, b""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            data = held + piece
            try:
                end = len(data)
                text = data.decode()
            except UnicodeDecodeError as error:
                cut_character = error.reason == "unexpected end of data" and error.start > len(data) - 4
                if not cut_character:
                    raise not_utf8(path, line, data, error) from None
                end = error.start
                text = data[:end].decode()
            if text.endswith("\r"):  # a newline may follow
                end, text = end - 1, text[:-1]
            if "\0" in text:
                raise DataError(f"{path}:{line + text[: text.index(chr(0))].count(chr(10))}: a NUL byte; expected text")
            line += text.count("\n")
            held = data[end:]
            yield text.replace("\r\n", "\n")
    if held not in (b"", b"\r"):
        raise DataError(f"{path}:{line}: not UTF-8: found 0x{held[0]:02x}")
    yield held.decode()


def not_utf8(path: Path, line: int, data: bytes, error: UnicodeDecodeError) -> DataError:
    line += data[: error.start].count(b"\n")
    return DataError(f"{path}:{line}: not UTF-8: found 0x{data[error.start]:02x}")


def plain_text_samples(tokens: ModelTokenizer, path: Path, sequence: int) -> Iterator[Samples]:
    """A plain text is one document, cut into consecutive samples of `sequence` tokens."""
    if path.stat().st_size == 0:
        raise DataError(f"{path}: empty; expected text")
    held: list[int] = []
    is_start = True
    for piece in encode_pieces(tokens.tokenizer, text_of(path)):
        held += [number for number, _, _ in piece]
        if is_start and len(held) >= len(tokens.begin_tokens):
            held, is_start = with_begin(tokens, held), False
        whole = (len(held) - 1) // sequence * sequence if held else 0  # one token stays, for the end
        yield cut(held[:whole], sequence)
        held = held[whole:]
    held = with_end(tokens, with_begin(tokens, held) if is_start else held)
    yield cut(held, sequence)


def cut(ids: list[int], sequence: int) -> Samples:
    made = Samples()
    for start in range(0, len(ids), sequence):
        part = ids[start : start + sequence]
        made.add(Sample(part, b"\1" * len(part)))
    return made
