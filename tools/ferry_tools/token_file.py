"""The token file: writes and reads what docs/formats/tokens.md describes and ferry's engine maps."""

import shutil
import struct
import tempfile
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy

from ferry_tools.errors import DataError
from ferry_tools.samples import Sample, Samples
from ferry_tools.temporary_file import replacing

MAGIC = b"FERRYTOK"
VERSION = 1
HEADER = struct.Struct("<8sIIIIQQQ32s")
NO_TOKEN = 0xFFFFFFFF


@dataclass(frozen=True)
class Counts:
    """What the front of a token file says."""

    vocabulary: int
    end_token: int
    source_hash: bytes  # SHA-256 of all inputs
    samples: int
    tokens: int
    learned: int
    longest: int


@dataclass(frozen=True)
class TokenSet:
    """A mapped token file."""

    vocabulary: int
    end_token: int
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
    """Reads header and offsets only. The engine checks more; this checks that it is a token file."""
    with path.open("rb") as file:
        header = file.read(HEADER.size)
        if len(header) < HEADER.size or not header.startswith(MAGIC):
            raise DataError(f"{path}: not a token file")
        _, version, vocabulary, end_token, _, count, tokens, learned, source_hash = HEADER.unpack(header)
        size = HEADER.size + 8 * (count + 1) + 5 * tokens
        if version != VERSION or path.stat().st_size != size:
            raise DataError(f"{path}: a damaged token file, or one of another version")
        offsets = numpy.fromfile(file, "<u8", count + 1)
    longest = int(numpy.diff(offsets).max(initial=0))
    return Counts(vocabulary, end_token, source_hash, count, tokens, learned, longest)


def read(path: Path) -> TokenSet:
    """Maps a file."""
    counts = read_counts(path)
    data = numpy.memmap(path, "u1", "r")
    ids_at = HEADER.size + 8 * (counts.samples + 1)
    flags_at = ids_at + 4 * counts.tokens
    return TokenSet(
        counts.vocabulary,
        counts.end_token,
        counts.source_hash,
        data[HEADER.size : ids_at].view("<u8").astype("i8"),
        data[ids_at:flags_at].view("<u4"),
        data[flags_at:],
    )
