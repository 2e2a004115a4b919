"""From rows to samples: ids with a flag each that says whether the id is learned.

The rules are public: docs/formats/data.md states them.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ferry_tools.chat import chat_sample
from ferry_tools.errors import RowError
from ferry_tools.long_text import Token
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
    told: Counter[str] = field(default_factory=Counter)  # chat.py's, of the conversations

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
        rows: list[tuple[str, Row | RowError]] = []
        for record in records:
            try:
                rows.append((record.where, row_of(record.where, value_of(record), self.keys)))
            except RowError as error:
                rows.append((record.where, error))
        texts = iter(self._encoded([row for _, row in rows]))
        for where, row in rows:
            if isinstance(row, RowError):
                made.refused.append(row)
            elif isinstance(row, Chat):
                try:
                    made.add(Sample(*chat_sample(self.tokens, where, row, made.told)))
                except RowError as error:
                    made.refused.append(error)
            else:
                made.add(next(texts))
        return made

    def _encoded(self, rows: list[Row | RowError]) -> Iterator[Sample]:
        """The samples of texts or of completions, which a file has one of: encoded many at a time."""
        texts = [row for row in rows if isinstance(row, Text)]
        for ids in self.tokens.encode_all([row.text for row in texts]):
            yield text_sample(self.tokens, ids)
        pairs = [row for row in rows if isinstance(row, Completion)]
        prompts = self.tokens.encode_all([row.prompt for row in pairs])
        completions = self.tokens.encode_all([row.completion for row in pairs])
        joined = self.tokens.encode_all([row.prompt + row.completion for row in pairs])
        for parts in zip(prompts, completions, joined, strict=True):
            yield completion_sample(self.tokens, *parts)


def plain_text_samples(
    tokens: ModelTokenizer, text: Iterable[list[Token]], sequence: int
) -> Iterator[Samples]:
    """A plain text, whose tokens come in pieces, is one document, cut into consecutive samples of `sequence` tokens."""
    held: list[int] = []
    is_start = True
    for piece in text:
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
