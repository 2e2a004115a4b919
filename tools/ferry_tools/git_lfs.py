"""What Git leaves in place of a large file that was not fetched."""

from pathlib import Path

from ferry_tools.errors import DataError

BEGIN = b"version https://git-lfs.github.com/spec/"
LIMIT = 1024  # bytes: a pointer has fewer


def refuse_git_lfs_pointer(path: Path) -> None:
    """Raises DataError, in the engine's words (src/base/input_file.h), when the file is such a pointer."""
    if path.stat().st_size > LIMIT:
        return
    with path.open("rb") as file:
        if file.read(len(BEGIN)) == BEGIN:
            raise DataError(
                f"{path}: a Git LFS pointer, not the file that it stands for\n  try: git lfs pull, in its folder"
            )
