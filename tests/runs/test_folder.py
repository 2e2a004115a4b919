"""A run's folder belongs to one process at a time, and whatever is refused leaves it as it was."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import FERRY, contents, descendants, ferry


@pytest.fixture(scope="module")
def used(box):
    """A folder with a finished run of two steps."""
    return box.train("owned", train__steps=2, train__log_every=2)


@pytest.mark.parametrize(
    ("words", "expect", "said"),
    [
        (["optim.lr=1"], 2, "was saved by an earlier run"),
        (["--resume", "7"], 2, "--resume 7: no such checkpoint in {out}/checkpoints; those of steps 2 are there"),
        (["--resume", "train.seed=9", "train.steps=4"], 2, "train.seed"),
        (["--resume", "train.steps=4", "data.train=nowhere.tokens"], 2, "nowhere.tokens"),
        (["--resume", "train.steps=4", "budget.device=1 KiB"], 4, "does not fit"),
    ],
)
def test_a_refused_train_leaves_the_folder_as_it_was(box, used, words, expect, said):
    before = contents(used.out)
    done = ferry("train", str(box.folder / "owned.yaml"), *words, expect=expect)
    assert said.format(out=used.out) in done.stdout + done.stderr
    assert contents(used.out) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("job.yaml", ["train"]),
        ("plan", ["train"]),
        ("plan", ["plan", "plan.profile=estimate"]),
        ("log.jsonl", ["train"]),
        ("profile.yaml", ["plan"]),
    ],
)
def test_a_file_that_is_not_ferrys_is_not_replaced(box, tmp_path, name, words):
    """The user's own job beside `out: .`, or a folder that something else writes into."""
    job, _ = box.write_job("beside-own-files", train__steps=1)
    (tmp_path / name).write_text("# mine\n")
    before = contents(tmp_path)
    command, *overrides = words
    said = ferry(command, str(job), f"out={tmp_path}", *overrides, expect=2).stderr
    assert f"{tmp_path / name} is there and is not of a run of ferry" in said
    assert contents(tmp_path) == before


def test_a_link_in_the_place_of_half_a_checkpoint_goes_and_its_target_stays(box, tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out/checkpoints").mkdir(parents=True)
    (tmp_path / "out/checkpoints/step-000001.tmp").symlink_to(tmp_path / "mine")
    box.train("link-in-the-way", f"out={tmp_path / 'out'}", train__steps=1)
    assert (tmp_path / "mine").read_text() == "mine"
    assert [path.name for path in (tmp_path / "out/checkpoints").iterdir()] == ["step-000001"]


def test_a_run_that_ended_before_it_saved_begins_anew(box):
    first = box.start("ended-early", train__steps=100_000, train__save_every=0)
    first.wait_until(lambda: first.steps >= 1)
    for process in [*descendants(first.process.pid), first.process.pid]:
        os.kill(process, signal.SIGKILL)
    first.process.communicate(timeout=60)
    assert len(box.train("ended-early", train__steps=2).losses) == 2


def test_plan_answers_and_leaves_the_plan_of_a_run(box, used, tmp_path):
    before = contents(used.out)
    done = ferry("plan", str(box.folder / "owned.yaml"), "data.sequence=16", "plan.profile=estimate")
    assert "strategy resident" in done.stdout and "plan written" not in done.stdout
    assert f"plan not written: {used.out} holds a run\n  try: -o FILE" in done.stderr
    assert contents(used.out) == before
    file = tmp_path / "plan"
    ferry("plan", str(box.folder / "owned.yaml"), "plan.profile=estimate", "-o", str(file))
    assert file.exists()


def test_a_second_train_is_told_who_runs_and_the_first_goes_on(box):
    first = box.start("it's a pair", train__steps=100_000, train__save_every=1)
    typed = [str(FERRY), "train", str(box.folder / "it's a pair.yaml")]
    first.wait_until(lambda: first.steps >= 2)
    for words in ([], ["--resume"], ["train.steps=1"]):
        said = ferry(*typed[1:], *words, expect=2).stderr
        told = re.match(re.escape(str(first.out)) + r" is in use by process (\d+) on .* UTC: (.*)\n  try: ", said)
        assert told, said
        assert int(told.group(1)) in [first.process.pid, *descendants(first.process.pid)]
        assert shlex.split(told.group(2)) == typed
    assert "plan not written" in ferry("plan", typed[2]).stderr
    first.process.send_signal(signal.SIGINT)
    text, _ = first.process.communicate(timeout=60)
    assert first.process.returncode == 130, text
    assert not (first.out / "run.lock").exists()
    # The line that it ends with goes on.
    line = next(line for line in text.splitlines() if line.startswith("to go on: "))
    words, steps = shlex.split(line.removeprefix("to go on: ")), first.steps
    assert words == [*typed, "--resume"]
    subprocess.run([*words, f"train.steps={steps + 1}"], check=True, capture_output=True, timeout=300)
    assert first.steps == steps + 1


def test_a_killed_run_leaves_no_lock(box):
    first = box.start("killed-holder", train__steps=100_000, train__save_every=1)
    first.wait_until(lambda: first.steps >= 3)
    trainer = descendants(first.process.pid)
    for process in [*trainer, first.process.pid]:
        os.kill(process, signal.SIGKILL)
    first.process.communicate(timeout=60)
    assert (first.out / "run.lock").exists()
    steps = int([name for name in first.checkpoints if not name.endswith(".tmp")][-1].removeprefix("step-"))
    box.train("killed-holder", "--resume", train__steps=steps + 1)
    assert not (first.out / "run.lock").exists()


def test_going_back_to_an_older_checkpoint_replaces_what_came_after(box):
    whole = box.train("back-whole", train__steps=6)
    box.train("back", train__steps=6, train__save_every=2, train__keep=3)
    run = box.train("back", "--resume", "2", train__steps=3)
    assert run.losses == whole.losses[:3]
    assert sorted(p.name for p in (run.out / "checkpoints").iterdir()) == ["step-000002", "step-000003"]
    assert box.train("back", "--resume", train__steps=6).losses == whole.losses


def test_a_run_that_went_back_and_was_killed_goes_on_from_where_it_went_back_to(box):
    """Not from a checkpoint of the steps that it is replacing."""
    whole = box.train("killed-whole", train__steps=5)
    box.train("killed-back", train__steps=6, train__save_every=2, train__keep=3)
    run = box.start("killed-back", "--resume", "2", train__steps=100_000)
    aside = ["step-000002", "step-000004.later", "step-000006.later"]
    run.wait_until(lambda: run.steps >= 8)  # more than the log had before
    assert run.checkpoints == aside
    assert (run.out / "model").readlink() == Path("checkpoints/step-000002")
    for process in [*descendants(run.process.pid), run.process.pid]:
        os.kill(process, signal.SIGKILL)
    _, said = run.process.communicate(timeout=60)
    assert "checkpoints of later steps are set aside until the first save: " in said
    again = box.train("killed-back", "--resume", train__steps=5)
    assert "step-000002" in again.text and again.losses == whole.losses
    assert run.checkpoints == ["step-000002", "step-000005"]


def test_a_run_whose_folder_is_moved_writes_into_no_others(box, tmp_path):
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        run = box.start("taken-away", stderr=stream, train__steps=100_000)
    run.wait_until(lambda: run.steps >= 2)
    away = run.out.rename(run.out.with_name("taken-to"))
    run.out.mkdir()
    (run.out / "of-another").touch()
    run.process.send_signal(signal.SIGTERM)
    run.wait_until(lambda: "the folder in which the run began is not there any more" in errors.read_text())
    assert [path.name for path in run.out.iterdir()] == ["of-another"]
    (run.out / "of-another").unlink()
    run.out.rmdir()
    away.rename(run.out)  # in time for the next try
    run.end(expect=130)
    assert run.checkpoints == [f"step-{run.steps:06d}"]


def saved_steps(run) -> list[int]:
    return [int(name.removeprefix("step-")) for name in run.checkpoints if "." not in name]


def test_a_folder_that_is_put_back_is_written_into_again(box):
    errors = box.folder / "put-back.errors"
    with errors.open("w") as stream:
        run = box.start("put-back", stdout=subprocess.DEVNULL, stderr=stream, train__steps=100_000, train__save_every=5)
    run.wait_until(lambda: run.steps >= 2)
    away = run.out.rename(run.out.with_name("put-away"))
    run.wait_until(lambda: "is not saved: " in errors.read_text())
    away.rename(run.out)
    tried = run.steps
    run.wait_until(lambda: any(step > tried for step in saved_steps(run)))
    run.process.send_signal(signal.SIGTERM)
    run.end(expect=130)
    assert saved_steps(run)[-1] == run.steps
