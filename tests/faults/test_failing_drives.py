"""The n-th transfer of a drive fails, runs on drives are killed, checkpoints are damaged: a clear error, and the same weights after going on.

Whole programs, on a real drive; `homes_test` lets drives in memory fail at some moments of a run, `store_test` at every request.
"""

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
from boxes import FERRY, Box, Run, descendants, machine, make_model, wait_for_ends
from test_failing_calls import Trial, goes_on_to_the_same_end, shim  # noqa: F401

STEPS = 5
KILLS = 100
FLIPS = 40
BROKEN, FULL = "Input/output error", "No space left on device"
REASONS = {"read": BROKEN, "write": BROKEN, "full": FULL, "torn": BROKEN}


@pytest.fixture(scope="module")
def drive(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("drive")


@pytest.fixture(scope="module")
def small(box, drive, tmp_path_factory) -> dict:
    """A job of two layers whose states rest on a drive, and which saves after every step."""
    folder = tmp_path_factory.mktemp("drives")
    content = json.loads(machine(box.folder, 1).read_text())
    listed = {"name": "ssd0", "path": str(drive), "capacity": "1 GiB", "read": "2 GB/s", "write": "1 GB/s"}
    (folder / "machine.yaml").write_text(json.dumps(content | {"drives": [listed]}))
    return {
        "model": str(make_model(folder / "base", num_hidden_layers=2)),
        "machine": str(folder / "machine.yaml"),
        "strategy": "fuyou",
        "budget__host": "1020 KiB",
        "budget__device": "600 KiB",  # with more of it next to nothing rests on the drive
        "train__steps": STEPS,
        "train__save_every": 1,
        "train__keep": 2,
    }


@pytest.fixture(scope="module")
def whole(box, small) -> Run:
    run = box.train("drive-calls-whole", **small)
    assert run.summary["drives"]["ssd0"]["measured"]["written"] > 0
    return run


def attempt(box, shim: Path, name: str, small: dict, drive: Path, fault: str) -> Trial:  # noqa: F811
    """A new run that meets the fault on the drive. io_uring's requests are no calls: it goes by threads."""
    shutil.rmtree(box.folder / name, ignore_errors=True)
    file, _ = box.write_job(name, **small)
    told = box.folder / f"{name}.told"
    told.unlink(missing_ok=True)
    names = {
        "LD_PRELOAD": shim,
        "FERRY_FAIL": fault,
        "FERRY_FAIL_BELOW": drive,
        "FERRY_FAIL_TOLD": told,
        "FERRY_FAIL_WITHOUT_URING": 1,
    }
    environment = os.environ | {key: str(value) for key, value in names.items()}
    done = subprocess.run([FERRY, "train", file], env=environment, capture_output=True, text=True, timeout=300)
    return Trial(done.returncode, done.stderr, told.exists())


@pytest.mark.parametrize("kind", ["read", "write", "full", "torn", "short"])
def test_a_transfer_that_fails_ends_the_run_and_loses_nothing(box, shim, small, whole, drive, kind):  # noqa: F811
    """Ever larger numbers: there are hundreds, and each takes two runs."""
    name = f"drive-calls-{kind}"
    failed, n = 0, 1
    while (trial := attempt(box, shim, name, small, drive, f"{kind}:{n}")).failed:
        failed += 1
        another_way = "through the page cache" in trial.said  # what was tried at the start failed
        not_saved = "is not saved: ssd0: " in trial.said  # a later save may succeed
        assert trial.exit_code == (0 if kind == "short" or another_way or not_saved else 3), (n, trial)
        if kind != "short":
            assert str(drive) in trial.said and REASONS[kind] in trial.said, (n, trial)
        goes_on_to_the_same_end(box, name, small, whole)
        n += 1 + n // 2
    assert trial.exit_code == 0, trial
    assert failed > 8


def test_a_read_that_fails_before_the_updates_of_a_step_saves_the_one_before(box, shim, small, whole, drive):  # noqa: F811
    name, rare = "drive-calls-rare", small | {"train__save_every": 0}
    saved, gone, n = 0, 0, 60
    while not (saved and gone):
        trial = attempt(box, shim, name, rare, drive, f"read:{n}")
        assert trial.failed, (saved, gone)
        n += 1
        log = box.folder / name / "log.jsonl"
        steps = len(log.read_text().splitlines()) if log.exists() else 0
        if trial.exit_code != 3 or steps == 0:
            continue
        checkpoint = box.folder / name / "checkpoints" / f"step-{steps:06d}"
        assert checkpoint.exists() == (f"go on from {checkpoint} with --resume" in trial.said), (n, trial)
        saved += checkpoint.exists()
        gone += f"the state after step {steps} is gone: updates had begun" in trial.said
        goes_on_to_the_same_end(box, name, small, whole)


def test_a_drive_that_is_full_at_the_start_is_refused(box, shim, small, whole, drive):  # noqa: F811
    trial = attempt(box, shim, "drive-calls-reserve", small, drive, "reserve:1")
    assert trial.failed and trial.exit_code == 3, trial
    assert f"in {drive}, the drive has" in trial.said, trial
    goes_on_to_the_same_end(box, "drive-calls-reserve", small, whole)


@pytest.mark.parametrize("n", [40, 150])
def test_a_drive_that_stops_answering_ends_the_run_after_a_minute(box, shim, small, whole, drive, n):  # noqa: F811
    trial = attempt(box, shim, "drive-calls-silent", small, drive, f"silent:{n}")
    assert trial.failed and trial.exit_code == 3, trial
    assert str(drive) in trial.said and "no answer within 60.00 s" in trial.said, trial
    goes_on_to_the_same_end(box, "drive-calls-silent", small, whole)


def test_a_run_on_drives_killed_at_any_moment_goes_on(box, small, whole, drive):
    began = time.monotonic()
    box.train("drive-killed-timed", **small)
    length = time.monotonic() - began
    pick = random.Random(1)
    for kill in range(KILLS):
        name = f"drive-killed-{kill}"
        started = box.start(name, **small)
        time.sleep(pick.random() * length)
        below = descendants(started.process.pid)
        started.process.send_signal(signal.SIGKILL)
        started.process.communicate()
        wait_for_ends(below)
        assert list(drive.iterdir()) == []  # nothing that could be mistaken for states
        goes_on_to_the_same_end(box, name, small, whole)
        shutil.rmtree(box.folder / name, ignore_errors=True)


def test_one_byte_of_a_checkpoint_that_differs_is_refused_by_name(box, small, whole):
    """And the one before it is offered; with that byte as it was, the run goes on."""
    pick = random.Random(2)
    name = "drive-flipped"
    box.train(name, **small | {"train__steps": STEPS - 1})
    saved = box.folder / name / "checkpoints" / f"step-{STEPS - 1:06d}"
    files = sorted(file for file in saved.rglob("*") if file.is_file())
    for flip in range(FLIPS):
        file = files[flip % len(files)]
        bytes_there = file.read_bytes()
        at = pick.randrange(len(bytes_there))
        file.write_bytes(bytes_there[:at] + bytes([bytes_there[at] ^ 1 << pick.randrange(8)]) + bytes_there[at + 1 :])
        said = box.train(name, "--resume", expect=2, **small).text
        assert str(file) in said, (file, at, said)
        assert f"step-{STEPS - 2:06d}" in said, (file, at, said)
        file.write_bytes(bytes_there)
    goes_on_to_the_same_end(box, name, small, whole)


def test_the_whole_run_is_that_in_memory(box: Box, small, whole):
    in_memory = small | {"strategy": "resident", "budget__host": "1 GiB", "budget__device": "1 GiB"}
    tensors = box.train("drive-calls-memory", **in_memory).tensors()
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, tensors[name]), name
