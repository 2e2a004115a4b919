"""Several token files as one, each with a weight: how often its rows come within an epoch."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy

from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.samples import Samples

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Part:
    path: Path
    weight: float = 1


def drawn_rows(count: int, share: float) -> numpy.ndarray:
    """Which of `count` rows belong to a share of them, ascending; the same ones every time.

    Rows are put in the order of splitmix64 of their numbers, and the first round(share count) are drawn.
    """
    if share == 1:
        return numpy.arange(count)
    x = (numpy.arange(count, dtype="u8") + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    x = x ^ (x >> numpy.uint64(31))
    return numpy.sort(numpy.argsort(x, kind="stable")[: round(share * count)])


def rows_in_order(counts: list[int], weights: list[float], held: list[int]) -> list[tuple[int, numpy.ndarray]]:
    """(file, rows) one after the other: whole passes over the files, then drawn rows, then what is held out.

    So the rows that are held out, the last ones of each file, come at the end, each once.
    """
    learned = [count - kept for count, kept in zip(counts, held, strict=True)]
    runs = []
    for turn in range(int(max(weights)) + 1):
        for file, weight in enumerate(weights):
            share = min(max(weight - turn, 0.0), 1.0)
            if share > 0:
                runs.append((file, drawn_rows(learned[file], share)))
    return runs + [(file, numpy.arange(learned[file], counts[file])) for file in range(len(counts))]


def mixed_file(parts: list[Part], held_out: float, cache: Path) -> tuple[Path, int]:
    """The file to learn from, and how many of its last samples are held out. One file of weight 1 is itself."""
    counts = [token_file.read_counts(part.path) for part in parts]
    held = [int(found.samples * held_out) for found in counts]
    weights = [part.weight for part in parts]
    if weights == [1]:
        return parts[0].path, held[0]
    first = counts[0]
    for part, found in zip(parts, counts, strict=True):
        if (found.vocabulary, found.end_token) != (first.vocabulary, first.end_token):
            raise DataError(f"{part.path}: tokens of another tokenizer than those of {parts[0].path}")
    inputs = [[file_hash(part.path), part.weight] for part in parts]
    key = hashlib.sha256(json.dumps(["mix 1", inputs, held_out]).encode()).digest()
    path = cache / f"mixed-{key.hex()[:16]}.tokens"
    if not path.is_file():
        sets = [token_file.read(part.path) for part in parts]
        with token_file.Writer(path) as writer:
            for file, rows in rows_in_order([found.samples for found in counts], weights, held):
                for start in range(0, len(rows), ROWS_AT_ONCE):
                    writer.add(samples_at(sets[file], rows[start : start + ROWS_AT_ONCE]))
            if writer.samples == sum(held):
                raise DataError("data.train: the weights leave no row to learn from")
            writer.finish(first.vocabulary, first.end_token, key)
    return path, sum(held)


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def samples_at(found: token_file.TokenSet, rows: numpy.ndarray) -> Samples:
    made = Samples()
    for row in rows.tolist():
        made.add(found.sample(row))
    return made
