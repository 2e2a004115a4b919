"""scripts/setup leaves a machine that has everything alone, and says what it cannot install."""

import os
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STAMP = ROOT / ".venv/ferry-setup"


def run_setup(tmp_path: Path, programs: dict[str, str], *arguments: str):
    """Runs scripts/setup with the given shell programs found first, and no index to download from."""
    for name, body in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    environment = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
    environment |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PIP_NO_INDEX": "1"}
    return subprocess.run(
        [ROOT / "scripts/setup", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def files_of(folder: Path) -> dict[str, int]:
    return {
        path: os.lstat(path).st_mtime_ns
        for top, _, names in os.walk(folder)
        for path in (os.path.join(top, name) for name in names)
        if not path.endswith(".pyc")  # Python's own, written by whichever test imports first
    }


@pytest.mark.skipif(not STAMP.exists(), reason="scripts/setup has not run here")
def test_a_second_run_changes_nothing(tmp_path):
    before = files_of(ROOT / ".venv")
    used_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    refuse = f"echo $0 $* >> {tmp_path}/calls; exit 1"
    done = run_setup(tmp_path, {"apt-get": refuse, "sudo": refuse})
    used = resource.getrusage(resource.RUSAGE_CHILDREN)

    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "calls").exists()
    assert files_of(ROOT / ".venv") == before
    assert used.ru_utime + used.ru_stime - used_before.ru_utime - used_before.ru_stime < 3  # CPU s


def test_without_root_and_sudo_the_missing_packages_are_listed(tmp_path):
    nothing_installed = {"dpkg-query": "exit 1", "id": "echo 1000", "sudo": "exit 1"}
    done = run_setup(tmp_path, nothing_installed, "clang-format")

    assert done.returncode == 3
    assert "apt-get install -y --no-install-recommends ca-certificates g++" in done.stderr
    assert "clang-format" in done.stderr


def test_the_package_asks_for_what_runs_need_and_developing_for_more():
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", line).group().lower() for line in package["dependencies"]}
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower() for line in lines if "==" in line}
    assert needed - pinned == {"torch"}
    assert not needed & {"mini-racer", "pytest", "scikit-build-core"}
    sources = "".join(path.read_text() for path in (ROOT / "tools").glob("*/*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", sources, re.M)) - sys.stdlib_module_names
    asked_for = needed | set(package["optional-dependencies"])  # named as what they bring
    assert imported - {"ferry", "ferry_tools"} <= {name.replace("-", "_") for name in asked_for}


def configure_package(folder: Path, python: str) -> subprocess.CompletedProcess:
    """As pip does, but for the building."""
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    defines = {"SKBUILD": "2", "Python_EXECUTABLE": python, **package["cmake"]["define"]}
    return subprocess.run(
        ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *(f"-D{key}={value}" for key, value in defines.items())],
        capture_output=True,
        text=True,
    )


def test_a_package_is_built_for_the_interpreter_that_installs_it(tmp_path):
    done = configure_package(tmp_path, str(ROOT / ".venv/bin/python"))
    assert done.returncode == 0, done.stderr
    targets = subprocess.run(["ninja", "-C", tmp_path, "-n", "ferry", "ferry-torch"], capture_output=True, text=True)
    assert targets.returncode == 0 and "_test" not in targets.stdout


def test_a_package_without_torch_says_how_to_install_it(tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\necho no torch >&2; exit 1\n")
    (tmp_path / "python").chmod(0o755)
    done = configure_package(tmp_path / "build", str(tmp_path / "python"))
    assert done.returncode == 1
    assert "pip install --no-build-isolation ." in " ".join(done.stderr.split())
