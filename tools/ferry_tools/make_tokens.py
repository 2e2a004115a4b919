"""`tokenize`: token files for (data, tokenizer, settings), each made once and found again by hash."""

import hashlib
import json
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path

from ferry_tools import token_file
from ferry_tools.errors import DataError, RowError
from ferry_tools.git_lfs import refuse_git_lfs_pointer
from ferry_tools.long_text import encode_piece, joined, overlapping
from ferry_tools.mix import Part, mixed_file
from ferry_tools.model_tokenizer import FILES, TODAY, ModelTokenizer
from ferry_tools.packed_file import format_of
from ferry_tools.processes import MOST_PROCESSES, cores, groups_of, results_in_order
from ferry_tools.progress import Progress
from ferry_tools.records import PlainText, Record, Records
from ferry_tools.rows import detect_keys, value_of
from ferry_tools.samples import RowRules, Samples, plain_text_samples
from ferry_tools.temporary_file import replacing

# Part of every hash: raised when the rules of samples.py, rows.py or chat.py change what a file holds.
RULES_VERSION = 5
MOST_NAMED = 5  # refused rows that are shown
MOST_LOOKED_AT = 256  # rows, for one that says what rows mean


@dataclass(frozen=True)
class Question:
    """What is to be tokenised and how."""

    parts: list[Part]
    model: Path
    sequence: int  # where a plain text is cut; nothing else depends on it
    text_key: str | None = None
    chat_template: str | None = None  # a name or a file
    skips: bool = False  # rows that cannot be used, instead of stopping
    held_out: float = 0  # of each file's rows, the last ones: they come last, each once
    processes: int = MOST_PROCESSES  # at once, at most; nothing depends on it


@dataclass
class Told:
    """What a person should know of a file's rows: how many were skipped, the first of them with what is wrong, and
    chat.py's counts of turns."""

    skipped: int = 0
    first: list[str] = field(default_factory=list)
    turns: Counter[str] = field(default_factory=Counter)

    def add(self, error: RowError) -> None:
        self.skipped += 1
        if len(self.first) < MOST_NAMED:
            self.first.append(str(error))


def input_hash(question: Question, source: Path, tokens: ModelTokenizer) -> bytes:
    """SHA-256 of everything that decides the contents of a file's tokens."""
    asked = tokens.asked_template
    settings = {
        "format": token_file.VERSION,
        "rules": RULES_VERSION,
        "text_key": question.text_key,
        "sequence": question.sequence if format_of(source) == ".txt" else None,
        "end_token": tokens.end_token,
        "chat_template": asked.text if asked else None,
        "skips": question.skips,
        "rows": format_of(source),
        "today": str(TODAY),
        "vocabulary": min(tokens.vocabulary, tokens.model_vocabulary or tokens.vocabulary),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    inputs = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    for path in inputs + [question.model / name for name in FILES]:
        if not path.is_file():
            digest.update(struct.pack("<Q", 0))
            continue
        digest.update(struct.pack("<Q", path.stat().st_size))
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.digest()


def rules_of(
    question: Question, tokens: ModelTokenizer, records: Iterator[Record]
) -> tuple[RowRules, Iterator[Record]]:
    """What the rows mean, read off the first that is one; and all of them again."""
    seen: list[Record] = []
    wrong = ""
    for record in islice(records, MOST_LOOKED_AT):
        seen.append(record)
        try:
            keys = detect_keys(record.where, value_of(record), question.text_key)
        except RowError as error:
            if not question.skips:
                raise
            wrong = wrong or str(error)
            continue
        return RowRules(tokens, keys), chain(seen, records)
    raise DataError(f"none of the first {len(seen)} rows can be used; the first: {wrong}")


def samples_of_file(question: Question, source: Path, tokens: ModelTokenizer) -> Iterator[tuple[Samples, float]]:
    """Samples, and how much of the file has been read for them at most."""
    processes = min(cores(), question.processes)
    if format_of(source) == ".txt":
        text = PlainText(source)
        encode = partial(encode_piece, tokens.tokenizer)
        encoded = results_in_order(encode, overlapping(text), processes)
        for made in plain_text_samples(tokens, joined(tokens.tokenizer, encoded), question.sequence):
            yield made, text.fraction
        return
    records = Records(source)
    rules, all_records = rules_of(question, tokens, iter(records))
    for made in results_in_order(rules.samples_of, groups_of(all_records), processes):
        yield made, records.fraction


def tokenise(question: Question, source: Path, tokens: ModelTokenizer, writer: token_file.Writer) -> Told:
    """Writes the samples of a file. Without `skips` the first row that cannot be used is raised."""
    told = Told()
    progress = Progress(source.name)
    try:
        for made, fraction in samples_of_file(question, source, tokens):
            for error in made.refused:
                if not question.skips:
                    raise DataError(f"{error}\n  try: data.on_error=skip leaves out such rows and counts them")
                told.add(error)
            told.turns.update(made.told)
            writer.add(made)
            progress.add(len(made.lengths) + len(made.refused), fraction)
        if writer.samples == 0:
            raise DataError(f"{source}: none of {told.skipped} rows can be used; the first: {told.first[0]}")
    except BaseException:
        progress.stop()
        raise
    progress.done(writer.tokens)
    return told


def notes_of(tokens: ModelTokenizer, source: Path, told: Told) -> list[str]:
    """What a person should know of how a file was tokenised."""
    notes = []
    if told.skipped:
        notes.append(f"{source}: {told.skipped:,} rows skipped (data.on_error: skip)")
        notes += [f"  {text}" for text in told.first]
        if told.skipped > len(told.first):
            notes.append(f"  and {told.skipped - len(told.first):,} more")
    notes += [f"{source}: {count:,} {what}" for what, count in told.turns.items()]
    if template := tokens.foreign_template:
        if not tokens.asked_template:
            notes.append(f"{tokens.folder}: the tokenizer has no chat template; data.chat_template: chatml is used")
        if template.words:
            notes.append(
                f"{tokens.folder}: {', '.join(template.words)} of chat template {template.origin} are no tokens of "
                "this tokenizer; they are written as text"
            )
    return notes


def tokens_of_file(question: Question, source: Path, cache: Path) -> tuple[Path, bool, list[str]]:
    """The token file of one data file, whether it was there already, and what to know of it.

    Beside it stand what to know, as `.notes`, and the chat template, as `.jinja`, where it is not the tokenizer's own.
    """
    if source.suffix == ".tokens":
        return source, True, []
    tokens = ModelTokenizer.load(question.model, question.chat_template)
    key = input_hash(question, source, tokens)
    path = cache / f"{source.stem}-{key.hex()[:16]}.tokens"
    notes_file = path.with_suffix(".notes")
    if path.is_file():
        return path, True, notes_file.read_text().splitlines() if notes_file.is_file() else []
    with token_file.Writer(path) as writer:
        notes = notes_of(tokens, source, tokenise(question, source, tokens, writer))
        template = tokens.foreign_template
        write_beside(notes_file, "".join(note + "\n" for note in notes))
        write_beside(path.with_suffix(".jinja"), template.text if template else "")
        writer.finish(vocabulary_of(tokens, writer.largest_id), tokens.end_token, key)
    return path, False, notes


def vocabulary_of(tokens: ModelTokenizer, largest_id: int) -> int:
    """The tokenizer's, or the model's where the tokenizer has more ids and no sample holds them: a padding token."""
    known = tokens.model_vocabulary
    if known is None or max(largest_id, tokens.end_token) >= known:
        return tokens.vocabulary
    return min(tokens.vocabulary, known)


def write_beside(file: Path, text: str) -> None:
    """A file of this text; none where there is nothing to say."""
    file.unlink(missing_ok=True)
    if text:
        with replacing(file) as replaced:
            replaced.write(text.encode())


def make_token_file(question: Question, cache: Path) -> dict:
    """Makes the token file in `cache` unless it is there, and returns what the engine is told of it, and `notes`."""
    for part in question.parts:
        if not part.path.is_file() and not part.path.is_dir():
            found = "neither a file nor a folder" if part.path.exists() else "no such file or folder"
            raise DataError(f"{part.path}: {found}; expected JSONL, JSON, CSV, Parquet or plain text")
        if part.path.is_file():
            refuse_git_lfs_pointer(part.path)
    parts, cached, templates, all_notes = [], True, [], []
    for part in question.parts:
        path, was_there, notes = tokens_of_file(question, part.path, cache)
        parts.append(Part(path, part.weight))
        templates += [str(file.resolve()) for file in [path.with_suffix(".jinja")] if file.is_file()]
        cached = cached and was_there
        all_notes += notes
        for note in notes:
            print(note, file=sys.stderr)
    path, held_out = mixed_file(parts, question.held_out, cache)
    found = token_file.read_counts(path)
    return {
        "path": str(path.resolve()),
        "samples": found.samples,
        "tokens": found.tokens,
        "learned": found.learned,
        "longest": found.longest,
        "vocabulary": found.vocabulary,
        "end_token": found.end_token,
        "held_out": held_out,
        "chat_template": templates[0] if templates else None,
        "cached": cached,
        "notes": all_notes,
    }
