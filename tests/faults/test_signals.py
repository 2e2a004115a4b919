"""Every signal in every phase: a good state or a clean end, and no process left."""

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from boxes import FERRY, descendants, machine, wait_for_ends

STEPS = 6
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL)
# What comes before the steps, each with how the line begins that is written when it is over.
ENDS_WITH = {
    "starting": "tokenised rows",
    "tokenising": "tokenised rows",
    "measuring": "planning  ",
    "planning": "strategy ",
    "loading": "step  ",
    "resuming": "step  ",
}
PHASES = ("starting", "tokenising", "measuring", "planning", "loading", "steps", "evaluating", "saving")


@pytest.fixture(scope="module")
def chat(tmp_path_factory) -> tuple[Path, Path, Path]:
    """A model with a tokenizer, rows that take a while to tokenise, and a few to evaluate on."""
    folder = tmp_path_factory.mktemp("chat")
    model, rows, held_out = folder / "base", folder / "rows.jsonl", folder / "held-out.jsonl"
    subprocess.run([FERRY, "init", model], check=True, capture_output=True)
    lines = [json.dumps({"text": f"row {i} of some words " * 20}) + "\n" for i in range(10_000)]
    rows.write_text("".join(lines))
    held_out.write_text("".join(lines[:20]))
    return model, rows, held_out


@dataclass(frozen=True)
class Trial:
    """A job in a folder of its own, with a cache of its own: it measures, plans and tokenises."""

    folder: Path
    file: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"FERRY_CACHE": str(self.cache)}

    def train(self, *flags: str) -> None:
        command = [FERRY, "train", self.file, *flags]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr

    def tensors(self) -> dict:
        from safetensors.torch import load_file

        return load_file(self.out / "checkpoints" / f"step-{STEPS:06d}" / "model.safetensors")


def make_trial(box, chat: tuple[Path, Path, Path], folder: Path) -> Trial:
    model, rows, held_out = map(str, chat)
    changes = {"train__steps": STEPS, "train__save_every": 1, "train__eval_every": 3, "data__sequence": 16}
    # Where states move, planning looks at every strategy.
    small = {"strategy": "auto", "machine": str(machine(box.folder, 1, "2 GB/s")), "budget__device": "12 MiB"}
    trial = Trial(folder, folder / "job.yaml")
    job = box.job("", model=model, data__train=rows, data__eval=held_out, out=str(trial.out), **changes, **small)
    trial.file.write_text(json.dumps(job))
    return trial


@pytest.fixture(scope="module")
def whole(box, chat, tmp_path_factory) -> Trial:
    trial = make_trial(box, chat, tmp_path_factory.mktemp("whole"))
    trial.train()
    return trial


class Watched:
    """What a run shows of the phase that it is in."""

    def __init__(self, trial: Trial, process: int, said: Path) -> None:
        self.trial, self.process, self.said = trial, process, said

    def has_line(self, begin: str) -> bool:
        return any(line.startswith(begin) for line in self.said.read_text().splitlines())

    def is_in(self, phase: str) -> bool:
        out = self.trial.out
        if phase == "starting":
            return len(descendants(self.process)) > 0
        if phase == "tokenising":
            return (self.trial.cache / "tokens").exists()  # made when the tokenizer is loaded
        if phase == "steps":
            return (out / "log.jsonl").exists() and "loss" in (out / "log.jsonl").read_text()
        if phase == "evaluating":
            return self.said.read_text().rpartition("\n")[0].rpartition("\n")[2].startswith("evaluating")
        if phase == "saving":
            return any((out / "checkpoints").glob("*.tmp"))
        return self.has_line(f"{phase} ")


def hears_hangups() -> None:
    """Though the tests run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def signalled(trial: Trial, phase: str, number: signal.Signals, *flags: str) -> None:
    """Trains until the phase is seen, sends the signal and waits for the end, which is as it should be."""
    said = trial.folder / "said"
    with said.open("w") as stream:
        command = [FERRY, "train", trial.file, *flags]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=trial.environment, preexec_fn=hears_hangups)
    watched, deadline = Watched(trial, process.pid, said), time.monotonic() + 120
    while not watched.is_in(phase):
        assert process.poll() is None and time.monotonic() < deadline, said.read_text()
        time.sleep(0.002)
    tree = descendants(process.pid)
    process.send_signal(number)
    if phase in ENDS_WITH:
        assert not watched.has_line(ENDS_WITH[phase]), "the signal came too late"
    code = process.wait(timeout=120)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 130), said.read_text()
    wait_for_ends(tree)


def ends_as(whole: Trial, trial: Trial) -> None:
    """Trains to the end, from what is saved, with the weights of a run that nothing has ended."""
    trial.train(*(["--resume"] if any((trial.out / "checkpoints").glob("step-??????")) else []))
    for name, values in whole.tensors().items():
        assert torch.equal(values, trial.tensors()[name]), name
    assert not os.path.lexists(trial.out / "checkpoints" / f"step-{STEPS:06d}.tmp")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_in_any_phase_loses_nothing(box, chat, whole, tmp_path, phase, number):
    trial = make_trial(box, chat, tmp_path)
    if phase not in ("starting", "measuring"):  # measuring takes seconds
        shutil.copytree(whole.cache / "measured", trial.cache / "measured")
    signalled(trial, phase, number)
    ends_as(whole, trial)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_a_checkpoint_is_loaded_loses_nothing(box, chat, whole, tmp_path, number):
    trial = make_trial(box, chat, tmp_path)
    shutil.copytree(whole.cache, trial.cache)
    signalled(trial, "saving", signal.SIGINT)
    saved = sorted((trial.out / "checkpoints").iterdir())
    signalled(trial, "resuming", number, "--resume")
    assert sorted((trial.out / "checkpoints").iterdir()) == saved
    ends_as(whole, trial)
