"""Files that appear when they are whole, as src/base/temporary_file.h writes them."""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

NEW = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file under a name of its own, which takes the place of `path` when the block ends well."""
    remove_left_behind(path)
    temporary, descriptor = create_beside(path)
    with open(descriptor, "wb") as file:
        try:
            yield file
            file.flush()
            os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def create_beside(path: Path) -> tuple[Path, int]:
    """A locked new file's name and descriptor."""
    while True:
        temporary = path.with_name(f"{path.name}.tmp{secrets.token_hex(4)}")
        with suppress(FileExistsError):
            descriptor = os.open(temporary, os.O_RDWR | NEW, 0o644)
            with suppress(OSError):  # where files cannot be locked, none is taken for left behind
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink > 0:  # else another writer took it for left behind before it was locked
                return temporary, descriptor
            os.close(descriptor)


def remove_left_behind(path: Path) -> None:
    """Removes what writers of `path` that died have left: nobody holds its lock."""
    own = re.compile(re.escape(path.name) + r"\.tmp[0-9a-f]{8}")
    for other in path.parent.iterdir():
        if not own.fullmatch(other.name):
            continue
        with suppress(OSError):  # gone meanwhile, a link, or another's
            descriptor = os.open(other, OLD)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                other.unlink()
            finally:
                os.close(descriptor)
