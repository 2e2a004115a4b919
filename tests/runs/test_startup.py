"""Commands without tensors load no torch; the others go on with it."""

import json
import os
import shutil
import subprocess

import pytest
from conftest import FERRY, Box, ferry


def loaded(folder, *arguments: str) -> set[str]:
    """The libraries that `ferry ARGUMENTS` and its children load, by the loader's own account."""
    log = folder / "loader"
    env = os.environ | {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(log)}
    with subprocess.Popen([FERRY, *arguments], stdout=subprocess.DEVNULL, env=env) as process:
        assert process.wait(timeout=300) == 0
    text = "".join(file.read_text(errors="replace") for file in folder.glob("loader.*"))
    return {line.split("file=")[1].split()[0] for line in text.splitlines() if "file=" in line}


@pytest.fixture(scope="module")
def planned(box: Box):
    """A job with an estimate as its profile, planned."""
    job = box.job("startup", plan__profile="estimate")
    file = box.folder / "startup.yaml"
    file.write_text(json.dumps(job))
    ferry("plan", str(file))
    return file


@pytest.mark.parametrize(
    "command", ["--version", "--help", "plan JOB", "simulate PLAN", "papers pipelines"]
)
def test_commands_without_tensors_load_no_torch(box, planned, tmp_path, command):
    words = command.replace("JOB", str(planned)).replace("PLAN", str(box.folder / "startup" / "plan")).split()
    libraries = loaded(tmp_path, *words)
    assert any("libstdc++" in name for name in libraries)
    assert not [name for name in libraries if "torch" in name or "libc10" in name]


def test_training_goes_on_with_torch(box, tmp_path):
    job = box.job("startup-train", train__steps=1)
    file = box.folder / "startup-train.yaml"
    file.write_text(json.dumps(job))
    assert [name for name in loaded(tmp_path, "train", str(file)) if "libtorch_cpu" in name]


def test_a_ferry_without_its_other_half_says_so(tmp_path):
    alone = tmp_path / "ferry"
    shutil.copy(FERRY, alone)
    done = subprocess.run([alone, "doctor"], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stderr == f"cannot run {tmp_path}/ferry-torch: No such file or directory\n"
