"""The token file: writes and reads what docs/formats/tokens.md describes and ferry's engine maps."""

import shutil
import struct
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy

from ferry_tools.errors import DataError
from ferry_tools.samples import Sample, Samples
from ferry_tools.temporary_file import replacing

MAGIC = b"FERRYTOK"
VERSION = 1
HEADER = struct.Struct("<8sIIIIQQQ32s")
NO_TOKEN = 0xFFFFFFFF
MOST_SAMPLES = 0x7FFFFFFF  # the engine holds their numbers in 32 bits
MOST_TOKENS = 1 << 48
VALUES_AT_ONCE = 1 << 20  # that are checked


@dataclass(frozen=True)
class Counts:
    """What the front of a token file says."""

    vocabulary: int
    end_token: int  # NO_TOKEN: none
    source_hash: bytes  # SHA-256 of all inputs
    samples: int
    tokens: int
    learned: int
    longest: int


@dataclass(frozen=True)
class TokenSet:
    """A mapped token file."""

    vocabulary: int
    end_token: int  # NO_TOKEN: none
    source_hash: bytes
    offsets: numpy.ndarray  # where each sample begins, and the end of the last
    ids: numpy.ndarray
    learned: numpy.ndarray

    def sample(self, number: int) -> Sample:
        begin, end = self.offsets[number : number + 2]
        return Sample(self.ids[begin:end].tolist(), self.learned[begin:end].tobytes())

    @property
    def samples(self) -> list[Sample]:
        return [self.sample(number) for number in range(len(self.offsets) - 1)]


class Writer:
    """Writes a file that appears when `finish` is done. Memory holds 8 bytes per sample.

    Ids and flags wait in nameless files of the same folder, because their places depend on how many there are.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.offsets = array("Q", [0])
        self.learned = 0
        self.largest_id = 0
        self.ids_file = tempfile.TemporaryFile(dir=path.parent)
        self.flags_file = tempfile.TemporaryFile(dir=path.parent)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.ids_file.close()
        self.flags_file.close()

    @property
    def samples(self) -> int:
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        return self.offsets[-1]

    def add(self, samples: Samples) -> None:
        end = self.tokens
        for length in samples.lengths:
            end += length
            self.offsets.append(end)
        self.learned += samples.learned.count(1)
        self.largest_id = max(self.largest_id, int(numpy.frombuffer(samples.ids, "u4").max(initial=0)))
        self.ids_file.write(samples.ids)
        self.flags_file.write(samples.learned)

    def finish(self, vocabulary: int, end_token: int, source_hash: bytes) -> None:
        header = HEADER.pack(
            MAGIC, VERSION, vocabulary, end_token, 0, self.samples, self.tokens, self.learned, source_hash
        )
        with replacing(self.path) as file:
            file.write(header)
            self.offsets.tofile(file)
            for part in (self.ids_file, self.flags_file):
                part.seek(0)
                shutil.copyfileobj(part, file, 1 << 20)


def write(path: Path, vocabulary: int, end_token: int, source_hash: bytes, samples: Iterable[Sample]) -> None:
    """Writes a file of these samples."""
    with Writer(path) as writer:
        for sample in samples:
            one = Samples()
            one.add(sample)
            writer.add(one)
        writer.finish(vocabulary, end_token, source_hash)


def read_counts(path: Path) -> Counts:
    """Reads and checks header and offsets only; ids and flags are for `read` and the engine."""
    size = path.stat().st_size
    with path.open("rb") as file:
        counts = header_of(path, file.read(HEADER.size), size)
    offsets = numpy.asarray(numpy.memmap(path, "<u8", "r", HEADER.size, counts.samples + 1))
    return replace(counts, longest=longest_sample(path, offsets, counts.tokens))


def read(path: Path) -> TokenSet:
    """Maps a file and checks all of it."""
    counts = read_counts(path)
    data = numpy.asarray(numpy.memmap(path, "u1", "r"))
    ids_at = HEADER.size + 8 * (counts.samples + 1)
    flags_at = ids_at + 4 * counts.tokens
    found = TokenSet(
        counts.vocabulary,
        counts.end_token,
        counts.source_hash,
        data[HEADER.size : ids_at].view("<i8"),
        data[ids_at:flags_at].view("<u4"),
        data[flags_at:],
    )
    check_ids(path, found)
    check_flags(path, found.learned, counts.learned)
    return found


# What the engine says of the same damage, and what was found: src/data/tokens.cc.
def header_of(path: Path, header: bytes, size: int) -> Counts:
    """What the header says, but for the longest sample. Raises DataError where it cannot be the file's."""
    if len(header) < HEADER.size:
        raise DataError(f"{path}: not a token file: {size} bytes, expected at least {HEADER.size}")
    magic, version, vocabulary, end_token, reserved, count, tokens, learned, source_hash = HEADER.unpack(header)
    if magic != MAGIC:
        raise DataError(f"{path}: not a token file: wrong first bytes")
    if version != VERSION:
        raise DataError(f"{path}: token file version {version}, expected {VERSION}; tokenise the data again")
    if count == 0 or count > MOST_TOKENS or tokens > MOST_TOKENS:
        raise DataError(f"{path}: damaged: {count} samples of {tokens} tokens in all")
    if count > MOST_SAMPLES:
        raise DataError(f"{path}: {count} samples; ferry takes at most {MOST_SAMPLES}")
    if reserved != 0:
        raise DataError(f"{path}: damaged: its reserved field is {reserved}, expected 0")
    expected = HEADER.size + 8 * (count + 1) + 5 * tokens
    if size != expected:
        raise DataError(f"{path}: damaged: {size} bytes, its header says {expected}")
    if end_token != NO_TOKEN and end_token >= vocabulary:
        raise DataError(
            f"{path}: damaged: its end token is outside its vocabulary: id {end_token}, expected below {vocabulary}"
        )
    return Counts(vocabulary, end_token, source_hash, count, tokens, learned, 0)


def longest_sample(path: Path, offsets: numpy.ndarray, tokens: int) -> int:
    """How many tokens it has. Raises DataError unless every sample follows the one before it."""
    first, last = int(offsets[0]), int(offsets[-1])
    if (first, last) != (0, tokens):
        raise DataError(
            f"{path}: damaged: its samples do not cover its tokens: from {first} to {last}, expected from 0 to {tokens}"
        )
    longest = 0
    for start, piece in pieces_of(offsets[:-1]):
        ends = offsets[start + 1 : start + 1 + len(piece)]
        if (wrong := piece >= ends).any():
            place = int(wrong.argmax())
            raise DataError(
                f"{path}: damaged: sample {start + place} is empty or out of order: "
                f"from {piece[place]} to {ends[place]}, expected a later end"
            )
        longest = max(longest, int((ends - piece).max()))
    return longest


def check_ids(path: Path, found: TokenSet) -> None:
    for start, piece in pieces_of(found.ids):
        if piece.max() >= found.vocabulary:
            place = int((piece >= found.vocabulary).argmax())
            raise DataError(
                f"{path}: damaged: token {start + place} has id {piece[place]}, its vocabulary is {found.vocabulary}"
            )


def check_flags(path: Path, flags: numpy.ndarray, learned: int) -> None:
    count = 0
    for start, piece in pieces_of(flags):
        if piece.max() > 1:
            place = int((piece > 1).argmax())
            raise DataError(
                f"{path}: damaged: a learn flag is neither 0 nor 1: that of token {start + place} is {piece[place]}"
            )
        count += numpy.count_nonzero(piece)
    if count != learned:
        raise DataError(
            f"{path}: damaged: its count of learned tokens is wrong: found {learned}, expected {count} by its flags"
        )


def pieces_of(values: numpy.ndarray) -> Iterator[tuple[int, numpy.ndarray]]:
    """Consecutive parts, each with its first place: what is checked may be larger than memory."""
    for start in range(0, len(values), VALUES_AT_ONCE):
        yield start, values[start : start + VALUES_AT_ONCE]
