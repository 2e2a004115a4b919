"""When checkpoints are written, and what a drive or a step that fails leaves."""

import resource
import signal
import subprocess

from conftest import descendants

MANY = 100000  # steps


def limit_files(run, size: int) -> None:
    """No file of the run can grow beyond `size` bytes, as on a drive that is full."""
    for process in descendants(run.process.pid):
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_drive_that_refuses_does_not_end_a_run(box, tmp_path):
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        changes = {"train__steps": MANY, "train__save_every": 5}
        run = box.start("refused", stdout=subprocess.DEVNULL, stderr=stream, **changes)
    run.wait_until(lambda: any(not name.endswith(".tmp") for name in run.checkpoints))
    assert run.summary["state"] == "running"
    before = run.steps
    limit_files(run, 512)
    run.wait_until(lambda: all(words in errors.read_text() for words in ("is not saved: ", "lines wait in memory")))
    assert any(not name.endswith(".tmp") for name in run.checkpoints), "what was saved before stays"
    limit_files(run, resource.RLIM_INFINITY)
    run.wait_until(lambda: run.steps > before + 20)
    run.process.send_signal(signal.SIGINT)
    run.end(expect=130)
    assert run.checkpoints[-1] == f"step-{run.steps:06d}"
    assert run.logged == list(range(1, run.steps + 1))
    assert run.summary["state"] == "interrupted"


def test_a_last_save_that_fails_is_an_error_that_says_what_is_lost(box):
    run = box.start("unsaved", train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    limit_files(run, 1 << 20)
    run.process.send_signal(signal.SIGTERM)
    said = run.end(expect=3)
    assert "File too large" in said and "is lost; no checkpoint was saved before" in said
    assert run.checkpoints == []
    assert run.summary["state"] == "failed" and "File too large" in run.summary["reason"]


def test_a_checkpoint_is_written_by_time(box):
    run = box.train("timed", train__steps=3, train__save_minutes=1e-9, train__keep=9)
    assert [path.name for path in sorted((run.out / "checkpoints").iterdir())] == [
        "step-000001", "step-000002", "step-000003",
    ]  # fmt: skip
    assert run.summary["state"] == "done"


def test_a_loss_that_is_not_finite_leaves_the_state_before_it(box):
    # lr x weight_decay = 1e6: weights grow by that factor every step, and overflow in forward first.
    rates = {"optim__lr": 1000, "optim__weight_decay": 1000, "strategy": "mobius"}
    run = box.train("overflowing", expect=2, **rates)
    steps = len(run.losses)
    assert f"step {steps + 1}: the loss is" in run.text and "rows" in run.text
    assert "the first gradient that is not finite, in the order of backward: lm_head.weight" in run.text
    assert f"go on from {run.out}/checkpoints/step-{steps:06d} with --resume" in run.text
    assert run.summary["state"] == "failed" and "diverged" in run.summary["reason"]
    again = box.train("overflowing", "--resume", expect=2, **rates)
    assert f"step {steps + 1}: the loss is" in again.text, "the same step diverges again"


def test_a_collapse_is_told_and_pushes_no_good_checkpoint_out(box):
    rates = {"optim__lr": 1000, "optim__weight_decay": 0, "optim__warmup_steps": 1, "optim__schedule": "constant"}
    run = box.train("collapsing", train__steps=6, train__save_every=1, train__keep=2, **rates)
    assert "the model has collapsed" in run.text
    kept = [path.name for path in sorted((run.out / "checkpoints").iterdir())]
    assert kept == ["step-000001", "step-000005", "step-000006"]  # the first has the weights of the last good loss

    again = box.train("collapsing", "--resume", train__steps=9, train__save_every=1, train__keep=2, **rates)
    assert "the model has collapsed" in again.text, "a resumed run knows what its log says"
    kept = [path.name for path in sorted((run.out / "checkpoints").iterdir())]
    assert kept == ["step-000001", "step-000008", "step-000009"]


def test_with_one_checkpoint_the_last_good_one_stays_until_a_newer_one_is_good(box):
    def kept(run) -> list[str]:
        return [path.name for path in sorted((run.out / "checkpoints").iterdir())]

    assert kept(box.train("one", train__steps=7, train__save_every=3, train__keep=1)) == ["step-000006", "step-000007"]
    rates = {"optim__lr": 1000, "optim__weight_decay": 0, "optim__warmup_steps": 1, "optim__schedule": "constant"}
    run = box.train("one-collapsing", train__steps=6, train__save_every=1, train__keep=1, **rates)
    assert kept(run) == ["step-000001", "step-000006"], "step 2 was saved before its loss was known"
