"""A run's log as TensorBoard's event files."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def line(step: int, loss: float) -> str:
    fields = {
        "step": step, "loss": loss, "lr": 0.5, "grad_norm": 2.0, "tokens_per_second": 100.0, "stall": 0.25,
        "tokens": 10, "learned_tokens": 5, "step_seconds": 0.1, "peak_bytes": {"host": 1},
    }  # fmt: skip
    return json.dumps(fields) + "\n"


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows, by tag."""
    events = EventAccumulator(str(folder)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


class Follower:
    def __init__(self, log: Path, folder: Path, after: int = 0):
        earlier = os.stat(log).st_ino if log.exists() else 0
        command = [sys.executable, "-m", "ferry_tools", "tensorboard", "--log", str(log), "--to", str(folder)]
        command += ["--after", str(after), "--earlier", str(earlier)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)

    def end(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def test_events_appear_while_the_run_goes_on(tmp_path):
    log, folder = tmp_path / "log.jsonl", tmp_path / "events"
    follower = Follower(log, folder)
    with log.open("w") as file:
        file.write(line(1, 6.5) + '{"step": 1, "eval_loss": 6.25}\n' + line(2, 6.0)[:20])
        file.flush()
        deadline = time.monotonic() + 60
        while not folder.exists() or shown(folder).get("eval/loss") != [(1, 6.25)]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert shown(folder)["train/loss"] == [(1, 6.5)]
        file.write(line(2, 6.0)[20:])
    follower.end()
    found = shown(folder)
    assert found["train/loss"] == [(1, 6.5), (2, 6.0)]
    assert found["train/lr"] == [(1, 0.5), (2, 0.5)]
    assert set(found) == {"train/loss", "train/lr", "train/grad_norm", "train/tokens_per_second", "train/stall", "eval/loss"}


def test_a_resumed_run_replaces_the_steps_behind_its_checkpoint(tmp_path):
    log, folder = tmp_path / "log.jsonl", tmp_path / "events"
    log.write_text(line(1, 6.5) + line(2, 6.0) + line(3, 5.5))
    first = Follower(tmp_path / "none", folder)  # an earlier part of the run, which wrote three steps
    (tmp_path / "none").write_text(log.read_text())
    first.end()
    assert [step for step, _ in shown(folder)["train/loss"]] == [1, 2, 3]

    second = Follower(log, folder, after=2)
    new = tmp_path / "log.tmp"
    new.write_text(line(1, 6.5) + line(2, 6.0) + line(3, 5.25))
    new.rename(log)
    second.end()
    assert shown(folder)["train/loss"] == [(1, 6.5), (2, 6.0), (3, 5.25)]


def test_a_run_that_ends_before_its_first_step_leaves_nothing(tmp_path):
    Follower(tmp_path / "log.jsonl", tmp_path / "events").end()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_told_before_the_run(tmp_path):
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard/__init__.py").write_text("raise ImportError('none here')")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    command = [sys.executable, "-m", "ferry_tools", "tensorboard", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2
    assert "train.report_to: the package tensorboard cannot be used: none here" in done.stderr
    assert subprocess.run(command).returncode == 0
