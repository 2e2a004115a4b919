"""Every source and test file is in a list: one that no CMakeLists.txt names fails the test. And a type has
one header: of two that are called alike the linker takes either.

A Python test may be named by its folder instead, as pytest finds what is in it.

Usage: sources.py SOURCE_DIR
"""

import re
import sys
from pathlib import Path

FOLDERS = ("src", "bench", "tests", "tools")
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)[^;{]*\{", re.MULTILINE)
NO_LIST = re.compile(r"#.*|add_subdirectory\([^)]*\)")  # a folder that is gone into runs none of its tests by that
TOKEN = re.compile(r'[^\s()"]+')


def named_paths(lists: list[Path], root: Path) -> set[Path]:
    """Returns every path that a word of the given CMakeLists.txt files can stand for."""
    named = set()
    for path in lists:
        variables = {"CMAKE_CURRENT_SOURCE_DIR": path.parent, "PROJECT_SOURCE_DIR": root}
        text = NO_LIST.sub("", path.read_text())
        for name, value in variables.items():
            text = text.replace(f"${{{name}}}", str(value))
        named |= {path.parent / word for word in TOKEN.findall(text)}
    return named


def unlisted(root: Path) -> list[Path]:
    """Lists the sources and tests under `root` that are built or run by no CMakeLists.txt."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*"))]
    named = named_paths([path for path in files if path.name == "CMakeLists.txt"], root)
    found = []
    for path in files:
        if path.suffix == ".cc" and path not in named:
            found.append(path)
        if path.match("test_*.py") and not named & {path, *path.parents} - {root, *root.parents}:
            found.append(path)
    return found


def types_of_two_headers(root: Path) -> list[str]:
    """Lists the types that more than one header under src/ defines at its outermost level."""
    headers: dict[str, list[str]] = {}
    for path in sorted((root / "src").rglob("*.h")):
        for name in set(TYPE.findall(path.read_text())):
            headers.setdefault(name, []).append(str(path.relative_to(root)))
    return [f"{name} is defined in {' and '.join(paths)}" for name, paths in headers.items() if len(paths) > 1]


if __name__ == "__main__":
    top = Path(sys.argv[1]).resolve()
    problems = [f"{path.relative_to(top)} is in no CMakeLists.txt" for path in unlisted(top)]
    problems += types_of_two_headers(top)
    print("\n".join(problems) or "every source and test is in a list, every type in one header")
    sys.exit(bool(problems))
