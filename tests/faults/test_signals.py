"""Every signal in every phase: a good state or a clean end, and no process left."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from boxes import FERRY, descendants, has_ended, wait_for_ends

STEPS = 12
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
PHASES = ("planning", "measuring", "tokenising", "loading", "steps", "saving")


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> tuple[Path, Path]:
    """A model with a tokenizer, and rows that take a moment."""
    folder = tmp_path_factory.mktemp("chat")
    model, rows = folder / "base", folder / "rows.jsonl"
    subprocess.run([FERRY, "init", model], check=True, capture_output=True)
    rows.write_text("".join(json.dumps({"text": f"row {i} of some words"}) + "\n" for i in range(200)))
    return model, rows


def job_of(box, name: str, chat: tuple[Path, Path]) -> dict:
    changes = {"train__steps": STEPS, "train__save_every": 1, "data__sequence": 16}
    return box.job(name, model=str(chat[0]), data__train=str(chat[1]), **changes)


def reached(phase: str, process: int, out: Path, errors: Path) -> Callable[[], bool]:
    """Whether the run is in a phase now."""
    said = lambda words: words in errors.read_text()  # noqa: E731
    tokenising = lambda: any(  # noqa: E731
        b"tokenize" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(process) if not has_ended(pid)
    )
    return {
        "planning": lambda: len(descendants(process)) > 0,
        "measuring": lambda: said("measuring"),
        "tokenising": tokenising,
        "loading": lambda: said("taking memory") or said("loading"),
        "steps": lambda: (out / "log.jsonl").exists() and "loss" in (out / "log.jsonl").read_text(),
        "saving": lambda: any((out / "checkpoints").glob("*.tmp")),
    }[phase]


@pytest.fixture(scope="module")
def whole(box, chat):
    file = box.folder / "signals-whole.yaml"
    job = job_of(box, "signals-whole", chat)
    file.write_text(json.dumps(job))
    subprocess.run([FERRY, "train", file], check=True, capture_output=True, timeout=300)
    return tensors(Path(job["out"]))


def tensors(out: Path) -> dict:
    from safetensors.torch import load_file

    return load_file(out / "checkpoints" / f"step-{STEPS:06d}" / "model.safetensors")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_loses_nothing(box, chat, whole, tmp_path, phase, number):
    job = job_of(box, f"signals-{phase}-{number.name}", chat)
    file, out, errors = tmp_path / "job.yaml", Path(job["out"]), tmp_path / "errors"
    file.write_text(json.dumps(job))
    if phase not in ("planning", "measuring"):
        out.mkdir()
        shutil.copy(box.folder / "signals-whole" / "profile.yaml", out)
    with errors.open("w") as stream:  # a current folder of its own: no cache holds the tokens
        process = subprocess.Popen([FERRY, "train", file], stdout=stream, stderr=stream, cwd=tmp_path)
    holds, deadline = reached(phase, process.pid, out, errors), time.monotonic() + 120
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, errors.read_text()
        time.sleep(0.002)
    tree = descendants(process.pid)
    process.send_signal(number)
    code = process.wait(timeout=120)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130), errors.read_text()
    wait_for_ends(tree)

    resume = ["--resume"] if any((out / "checkpoints").glob("step-??????")) else []
    done = subprocess.run([FERRY, "train", file, *resume], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    for name, values in whole.items():
        assert torch.equal(values, tensors(out)[name]), name
    assert not os.path.lexists(out / "checkpoints" / f"step-{STEPS:06d}.tmp")
