"""The programs find what belongs to them from their own place."""

import os
import shutil
import subprocess
from pathlib import Path

from conftest import FERRY

ROOT = Path(__file__).parents[2]


def test_a_moved_folder_uses_its_own_python_and_tools(tmp_path: Path):
    there = tmp_path / os.path.relpath(FERRY.parent, ROOT)
    there.mkdir(parents=True)
    shutil.copy(FERRY, there)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    tools = tmp_path / "tools/ferry_tools"
    tools.mkdir(parents=True)
    (tools / "__init__.py").touch()  # else a package of this name elsewhere on the path comes first
    (tools / "__main__.py").write_text("import sys; print(sys.executable, __file__)")
    done = subprocess.run([there / "ferry", "init", "x"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(tmp_path / ".venv/bin/python"), str(tools / "__main__.py")]


def test_libraries_are_looked_for_beside_the_program_first():
    for program in (FERRY, FERRY.with_name("ferry-torch")):
        dynamic = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
        paths = dynamic.split("runpath: [")[1].split("]")[0].split(":")
        assert paths[0].startswith("$ORIGIN/") and paths[0].endswith("torch/lib")
        assert (FERRY.parent / paths[0].removeprefix("$ORIGIN/")).is_dir()
