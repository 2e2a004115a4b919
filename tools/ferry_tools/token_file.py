"""The token file: writes and reads what docs/formats/tokens.md describes and ferry's engine maps."""

import os
import struct
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
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

    @property
    def tokens(self) -> int:
        return sum(len(sample.ids) for sample in self.samples)

    @property
    def learned(self) -> int:
        return sum(sum(sample.learned) for sample in self.samples)

    @property
    def longest(self) -> int:
        return max(len(sample.ids) for sample in self.samples)


def write(path: Path, vocabulary: int, end_token: int, source_hash: bytes, samples: Iterable[Sample]) -> None:
    """Writes a file under a temporary name and renames it. Holds ids as 4 bytes each meanwhile."""
    offsets, ids, learned = array("Q", [0]), array("I"), bytearray()
    for sample in samples:
        ids.extend(sample.ids)
        learned += sample.learned
        offsets.append(len(ids))
    count = len(offsets) - 1
    header = HEADER.pack(
        MAGIC, VERSION, vocabulary, end_token, 0, count, len(ids), sum(learned), source_hash
    )
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


def read(path: Path) -> TokenSet:
    """Reads a whole file. The engine checks more; this checks that it is one."""
    data = path.read_bytes()
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise DataError(f"{path}: not a token file")
    _, version, vocabulary, end_token, _, count, tokens, _, source_hash = HEADER.unpack_from(data)
    ids_at = HEADER.size + 8 * (count + 1)
    flags_at = ids_at + 4 * tokens
    if version != VERSION or len(data) != flags_at + tokens:
        raise DataError(f"{path}: a damaged token file, or one of another version")
    offsets = array("Q", data[HEADER.size : ids_at])
    ids = array("I", data[ids_at:flags_at])
    samples = [
        Sample(list(ids[a:b]), data[flags_at + a : flags_at + b])
        for a, b in zip(offsets, offsets[1:], strict=False)
    ]
    return TokenSet(vocabulary, end_token, source_hash, samples)
