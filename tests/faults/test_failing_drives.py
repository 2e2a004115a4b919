"""The n-th transfer of a drive fails, and runs on drives are killed: a clear error, and the same weights after going on."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from boxes import FERRY, Box, Run, machine, make_model
from test_failing_calls import goes_on_to_the_same_end, shim  # noqa: F401

STEPS = 3
KILLS = 100


@pytest.fixture(scope="module")
def small(box, tmp_path_factory) -> dict:
    """A job of two layers whose states rest on a drive, and which saves after every step."""
    folder = tmp_path_factory.mktemp("drives")
    (folder / "drive").mkdir()
    content = json.loads(machine(box.folder, 1).read_text())
    drive = {"name": "ssd0", "path": str(folder / "drive"), "capacity": "1 GiB", "read": "2 GB/s", "write": "1 GB/s"}
    (folder / "machine.yaml").write_text(json.dumps(content | {"drives": [drive]}))
    return {
        "model": str(make_model(folder / "base", num_hidden_layers=2)),
        "machine": str(folder / "machine.yaml"),
        "strategy": "fuyou",
        "budget__host": "1 MiB",
        "train__steps": STEPS,
        "train__save_every": 1,
        "train__keep": 1,
    }


@pytest.fixture(scope="module")
def whole(box, small) -> Run:
    return box.train("drive-calls-whole", **small)


@pytest.mark.parametrize("kind", ["read", "write", "reserve"])
def test_every_transfer_may_fail(box, shim, small, whole, kind):  # noqa: F811
    """Ever larger numbers: there are thousands."""
    below = str(Path(small["machine"]).parent / "drive")
    failed, n = 0, 1
    while True:
        name = f"drive-calls-{kind}"
        shutil.rmtree(box.folder / name, ignore_errors=True)
        file, out = box.write_job(name, **small)
        told = box.folder / f"{name}.told"
        told.unlink(missing_ok=True)
        names = {
            "LD_PRELOAD": shim,
            "FERRY_FAIL": f"{kind}:{n}",
            "FERRY_FAIL_BELOW": below,
            "FERRY_FAIL_TOLD": told,
            "FERRY_FAIL_WITHOUT_URING": 1,
        }
        environment = os.environ | {key: str(value) for key, value in names.items()}
        done = subprocess.run([FERRY, "train", file], env=environment, capture_output=True, text=True, timeout=300)
        if not told.exists():
            assert done.returncode == 0, done.stderr
            break
        failed += 1
        assert done.returncode == 3 or "threads, buffered" in done.stderr, (n, done.stderr)
        if done.returncode == 3:
            assert below in done.stderr, (n, done.stderr)
            goes_on_to_the_same_end(box, name, small, whole)
        n += 1 + n // 8
    assert failed > 0


def test_a_run_on_drives_killed_at_any_moment_goes_on(box, small, whole):
    pick = random.Random(1)
    for kill in range(KILLS):
        name = f"drive-killed-{kill}"
        started = box.start(name, **small)
        time.sleep(pick.random() * 3)
        started.process.send_signal(signal.SIGKILL)
        started.process.communicate()
        goes_on_to_the_same_end(box, name, small, whole)
        shutil.rmtree(box.folder / name, ignore_errors=True)


def test_the_whole_run_is_that_in_memory(box: Box, small, whole):
    in_memory = small | {"strategy": "resident", "budget__host": "1 GiB"}
    tensors = box.train("drive-calls-memory", **in_memory).tensors()
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, tensors[name]), name
