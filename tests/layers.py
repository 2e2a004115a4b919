"""Holds the folder order of ARCHITECTURE.md: an include that the table does not allow fails the test.

Usage: layers.py SOURCE_DIR
"""

import re
import sys
from pathlib import Path

MAY_SEE = {
    "base": set(),
    "spec": {"base"},
    "plan": {"base", "spec"},
    "exec": {"base", "spec", "plan"},
    "planner": {"base", "spec", "plan", "exec"},
    "store": {"base"},
    "optim": {"base"},
    "data": {"base", "spec", "store"},
    "model": {"base", "spec", "torch"},
    "simdev": {"base", "torch"},
    "device": {"base", "store", "simdev", "torch"},
    "train": {"base", "spec", "plan", "exec", "store", "optim", "data", "model", "device", "torch"},
    "cli": {"base", "spec", "plan", "exec", "planner", "store", "data", "train"},
}
TORCH = ("torch/", "ATen/", "c10/")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def violations(source: Path) -> list[str]:
    """Lists 'file:line: folder/ may not include what/' for every include outside the table."""
    found = []
    for path in sorted(source.glob("*/**/*")):
        folder = path.relative_to(source).parts[0]
        if path.suffix not in (".h", ".cc"):
            continue
        if folder not in MAY_SEE:
            found.append(f"{path}: folder {folder}/ is not in the table of tests/layers.py")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match.group(1) or match.group(2)
            target = "torch" if header.startswith(TORCH) else header.split("/")[0]
            known = target in MAY_SEE or target == "torch"
            if known and target != folder and target not in MAY_SEE[folder]:
                found.append(f"{path}:{number}: {folder}/ may not include {target}/")
    return found


if __name__ == "__main__":
    problems = violations(Path(sys.argv[1]) / "src")
    print("\n".join(problems) or "the folder order holds")
    sys.exit(bool(problems))
