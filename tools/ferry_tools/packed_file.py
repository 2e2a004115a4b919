"""Files of data as bytes: as they are, or unpacked on the way where their names end in `.gz`."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ferry_tools.errors import DataError

GZIP = ".gz"


def is_packed(path: Path) -> bool:
    return path.suffix.lower() == GZIP


def format_of(path: Path) -> str:
    """The ending that says what is in a file: `.csv` of x.csv and of x.csv.gz."""
    return Path(path.stem if is_packed(path) else path.name).suffix.lower()


@dataclass(frozen=True)
class OpenFile:
    content: BinaryIO
    stored: BinaryIO  # what of the file lies on the drive; the content itself where nothing is packed
    size: int

    @property
    def fraction(self) -> float:
        """How much of the file has been read."""
        return min(self.stored.tell() / max(self.size, 1), 1.0)


@contextmanager
def opened(path: Path) -> Iterator[OpenFile]:
    """Opens a file to read. Within it, a DataError names what is not gzip though its name says so."""
    with path.open("rb") as stored:
        content = gzip.GzipFile(fileobj=stored) if is_packed(path) else stored
        try:
            yield OpenFile(content, stored, path.stat().st_size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise DataError(
                f"{path}: cannot be unpacked: {error}; expected gzip, as its name says; rename it or pack it again"
            ) from None
