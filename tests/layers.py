"""Holds the order of folders and of the rooms inside them (ARCHITECTURE.md): an include that the tables do not
allow, or a cycle of includes at any depth, fails the test. So does a header of threads where there are none, and
JSON that is not read by parse_json() (base/json.h), which has its limits.

Usage: layers.py SOURCE_DIR
"""

import re
import sys
from pathlib import Path

MAY_SEE = {
    "base": set(),
    "spec": {"base"},
    "plan": {"base", "spec"},
    "exec": {"base", "plan"},
    "report": {"base", "plan", "exec"},
    "planner": {"base", "spec", "plan", "exec"},
    "papers": {"base", "spec", "plan", "exec", "planner"},
    "store": {"base"},
    "optim": {"base"},
    "data": {"base"},
    "model": {"base", "spec", "torch"},
    "simdev": {"base", "torch"},
    "device": {"base", "simdev", "torch"},
    "train": {"base", "spec", "plan", "exec", "report", "store", "optim", "data", "model", "device", "torch"},
    "cli": {"base", "spec", "plan", "exec", "report", "planner", "papers", "store", "data", "train"},
}
# The rooms of a folder that has some. Files beside the rooms see all of them; tests see the whole folder.
ROOMS = {
    "planner": {
        "costs": set(),
        "cuts": {"costs"},
        "orders": {"costs", "cuts"},
        "mixed": {"costs", "cuts"},
        "write": {"costs", "cuts", "orders"},
        "strategies": {"costs", "cuts", "orders", "mixed", "write"},
    },
    "papers": {
        "timing": set(),
        "published": set(),
        "harmony": {"timing", "published"},
        "mobius": {"timing", "published"},
        "ratel": {"timing", "published"},
        "roundpipe": {"timing", "published"},
        "ftpipe": {"timing", "published"},
    },
}
TORCH = ("torch/", "ATen/", "c10/")
# Folders that a build for the thread sanitizer leaves out (src/CMakeLists.txt), and what they therefore may not have:
# threads run what is theirs only through base/side_by_side.h.
WITHOUT_THREADS = {"planner", "papers"}
THREADS = {"atomic", "barrier", "condition_variable", "execution", "future", "latch", "mutex", "omp.h", "pthread.h",
           "semaphore", "shared_mutex", "stop_token", "thread"}  # fmt: skip
JSON_PARSER = re.compile(r"\b[Jj]son::(parse|sax_parse|accept|from_\w+)\(")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def includes(path: Path) -> list[tuple[int, str]]:
    """The line and the name of every include of a file."""
    lines = enumerate(path.read_text().splitlines(), 1)
    matches = ((number, INCLUDE.match(line)) for number, line in lines)
    return [(number, match.group(1) or match.group(2)) for number, match in matches if match]


def room(parts: tuple[str, ...]) -> str:
    """The room of a path below src/, or "" for what lies beside the rooms."""
    return parts[1] if len(parts) > 2 and parts[0] in ROOMS else ""


def breach(here: tuple[str, ...], header: str) -> str | None:
    """Says what `here`, a path below src/, may not do, or nothing."""
    there = tuple(header.split("/"))
    folder, target = here[0], "torch" if header.startswith(TORCH) else there[0]
    if folder in WITHOUT_THREADS and header in THREADS:
        return f"{folder}/ may not include <{header}>: the thread sanitizer does not see it"
    if target != folder:
        known = target in MAY_SEE or target == "torch"
        return f"{folder}/ may not include {target}/" if known and target not in MAY_SEE[folder] else None
    own, other = room(here), room(there)
    if own in ("", other) or here[-1].endswith("_test.cc"):
        return None
    if other in ROOMS[folder][own]:
        return None
    return f"{folder}/{own}/ may not include {folder}/{other}"


def violations(source: Path) -> list[str]:
    """Lists 'file:line: folder/ may not include what/' for every include outside the tables."""
    found = []
    for path in sorted(source.glob("*/**/*")):
        here = path.relative_to(source).parts
        if path.suffix not in (".h", ".cc"):
            continue
        if here[0] not in MAY_SEE:
            found.append(f"{path}: folder {here[0]}/ is not in the table of tests/layers.py")
            continue
        if room(here) and room(here) not in ROOMS[here[0]]:
            found.append(f"{path}: room {here[0]}/{room(here)}/ is not in the table of tests/layers.py")
            continue
        for number, header in includes(path):
            if problem := breach(here, header):
                found.append(f"{path}:{number}: {problem}")
    return found


def other_doors(source: Path) -> list[str]:
    """Lists 'file:line: ...' where a program's code parses JSON itself; tests may."""
    return [
        f"{path}:{number}: JSON is read by parse_json() of base/json.h alone"
        for path in sorted(source.glob("**/*"))
        if path.suffix in (".h", ".cc") and not path.stem.endswith("_test")
        and path.relative_to(source) != Path("base/json.cc")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if JSON_PARSER.search(line)
    ]  # fmt: skip


def unused(source: Path) -> list[str]:
    """Lists what the table allows and no file does."""
    seen = {folder: set() for folder in MAY_SEE}
    for path in source.glob("*/**/*"):
        folder = path.relative_to(source).parts[0]
        if path.suffix in (".h", ".cc") and folder in MAY_SEE:
            headers = [header for _, header in includes(path)]
            seen[folder] |= {"torch" if header.startswith(TORCH) else header.split("/")[0] for header in headers}
    return [
        f"tests/layers.py: {folder}/ may include {target}/, and nothing does"
        for folder, targets in MAY_SEE.items()
        for target in sorted(targets - seen[folder])
    ]


def cycle(source: Path) -> list[str]:
    """The files of one cycle of includes, or nothing."""
    files = [path for path in source.glob("*/**/*") if path.suffix in (".h", ".cc")]
    left = {
        str(path.relative_to(source)): {name for _, name in includes(path) if (source / name).exists()}
        for path in files
    }
    while True:
        free = {name for name, needs in left.items() if not needs & left.keys()}
        if not free:
            return sorted(left)
        left = {name: needs for name, needs in left.items() if name not in free}
        if not left:
            return []


if __name__ == "__main__":
    tree = Path(sys.argv[1]) / "src"
    problems = violations(tree) + unused(tree) + other_doors(tree)
    problems += [f"{name}: includes itself through others" for name in cycle(tree)]
    print("\n".join(problems) or "the folder order holds")
    sys.exit(bool(problems))
