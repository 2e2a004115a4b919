"""The token file: writes and reads what docs/formats/tokens.md describes and ferry's engine maps."""

import os
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ferry_tools.errors import DataError
from ferry_tools.samples import Sample

MAGIC = b"FERRYTOK"
VERSION = 1
HEADER = struct.Struct("<8sIIIIQQQ32s")
NO_TOKEN = 0xFFFFFFFF


@dataclass(frozen=True)
class TokenSet:
    """What a token file holds."""

    vocabulary: int
    end_token: int
    source_hash: bytes  # SHA-256 of all inputs
    samples: list[Sample]


@dataclass(frozen=True)
class Counts:
    """What the front of a token file says."""

    vocabulary: int
    end_token: int
    source_hash: bytes
    samples: int
    tokens: int
    learned: int
    longest: int


def write(path: Path, vocabulary: int, end_token: int, source_hash: bytes, samples: Iterable[Sample]) -> None:
    """Writes a file under a temporary name and renames it. Holds ids as 4 bytes each meanwhile."""
    offsets, ids, learned = array("Q", [0]), array("I"), bytearray()
    for sample in samples:
        ids.extend(sample.ids)
        learned += sample.learned
        offsets.append(len(ids))
    count = len(offsets) - 1
    header = HEADER.pack(MAGIC, VERSION, vocabulary, end_token, 0, count, len(ids), sum(learned), source_hash)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(header)
            offsets.tofile(file)
            ids.tofile(file)
            file.write(learned)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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
        offsets = array("Q", file.read(8 * (count + 1)))
    longest = max((b - a for a, b in pairwise(offsets)), default=0)
    return Counts(vocabulary, end_token, source_hash, count, tokens, learned, longest)


def read(path: Path) -> TokenSet:
    """Reads a whole file."""
    counts = read_counts(path)
    data = path.read_bytes()
    ids_at = HEADER.size + 8 * (counts.samples + 1)
    flags_at = ids_at + 4 * counts.tokens
    offsets = array("Q", data[HEADER.size : ids_at])
    ids = array("I", data[ids_at:flags_at])
    samples = [Sample(list(ids[a:b]), data[flags_at + a : flags_at + b]) for a, b in pairwise(offsets)]
    return TokenSet(counts.vocabulary, counts.end_token, counts.source_hash, samples)
