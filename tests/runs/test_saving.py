"""When checkpoints are written, and what a drive or a step that fails leaves."""

import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

from conftest import FERRY, Started, descendants, make_model, make_tokens

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
    limit_files(run, 2048)  # stderr, a file too, has room for what is said
    run.wait_until(lambda: all(words in errors.read_text() for words in ("is not saved: ", "lines wait in memory")))
    assert any(not name.endswith(".tmp") for name in run.checkpoints), "what was saved before stays"
    saved = set(run.checkpoints)
    limit_files(run, resource.RLIM_INFINITY)
    run.wait_until(lambda: any(not name.endswith(".tmp") for name in set(run.checkpoints) - saved))  # tried again
    run.wait_until(lambda: run.steps > before + 20)
    run.process.send_signal(signal.SIGINT)
    run.end(expect=130)
    assert run.checkpoints[-1] == f"step-{run.steps:06d}"
    assert run.logged == list(range(1, run.steps + 1))
    assert run.summary["state"] == "interrupted"


def test_a_last_save_that_fails_is_tried_until_it_succeeds(box, tmp_path):
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        run = box.start("saved-late", stderr=stream, train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    limit_files(run, 1 << 20)
    run.process.send_signal(signal.SIGTERM)
    run.wait_until(lambda: "the next try is in 2 s" in errors.read_text())
    assert "File too large" in errors.read_text() and run.summary["state"] == "running"
    limit_files(run, resource.RLIM_INFINITY)
    run.end(expect=130)
    assert run.checkpoints == [f"step-{run.steps:06d}"] and run.summary["state"] == "interrupted"


def test_a_last_save_that_nobody_waits_for_is_an_error_that_says_what_is_lost(box, tmp_path):
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        run = box.start("unsaved", stderr=stream, train__steps=60)
    run.wait_until(lambda: run.steps >= 2)
    limit_files(run, 1 << 20)
    run.wait_until(lambda: "step 60 is not saved: " in errors.read_text())
    run.process.send_signal(signal.SIGTERM)
    run.end(expect=3)
    assert "is lost; no checkpoint was saved before" in errors.read_text()
    assert run.checkpoints == []
    assert run.summary["state"] == "failed" and "File too large" in run.summary["reason"]


def test_a_model_whose_folder_is_moved_meanwhile_is_saved_all_the_same(box, tmp_path):
    """A base model on scratch, or a checkpoint of another run that rotates away."""
    base = shutil.copytree(box.model, tmp_path / "base")
    run = box.start("base-moved", model=str(base), train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    base.rename(tmp_path / "elsewhere")
    run.process.send_signal(signal.SIGINT)
    run.end(expect=130)
    saved = Path(run.summary["checkpoint"])
    for file in (tmp_path / "elsewhere").iterdir():
        assert (saved / file.name).exists(), file.name


def test_tokens_that_are_cut_under_a_run_end_it_with_its_state_saved(box, tmp_path):
    tokens = Path(shutil.copy(box.tokens, tmp_path / "data.tokens"))
    run = box.start("cut-tokens", data__train=str(tokens), train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    os.utime(tokens)  # as a backup may do; the bytes are the same
    seen = run.steps
    run.wait_until(lambda: run.steps >= seen + 5)
    with tokens.open("r+b") as file:
        file.truncate(100)
    said = run.end(expect=3)
    assert f"{tokens}: was changed while the run read from it" in said
    assert run.checkpoints == [f"step-{run.steps:06d}"] and run.checkpoints[0] + " is saved" in said
    assert run.summary["state"] == "failed"


def test_a_signal_ends_an_evaluation_and_what_was_due_is_saved_before(box, tmp_path):
    many = make_tokens(tmp_path / "eval.tokens", rows=20_000)  # thousands of steps
    changes = {"train__save_every": 2, "train__eval_every": 2, "data__eval": str(many)}
    run = box.start("evaluating", train__steps=MANY, **changes)
    run.wait_until(lambda: "step-000002" in run.checkpoints)
    run.process.send_signal(signal.SIGTERM)
    run.end(expect=130)
    assert run.checkpoints == ["step-000002"] and "eval_loss" not in (run.out / "log.jsonl").read_text()


def test_a_signal_behind_the_last_step_lets_its_evaluation_be_made(box):
    """A run that goes on would find nothing to do."""
    changes = {"train__save_every": 2, "train__eval_every": 2, "data__eval_fraction": 0.5}
    run = box.start("evaluated-last", train__steps=2, **changes)
    run.wait_until(lambda: "step-000002" in run.checkpoints)
    run.process.send_signal(signal.SIGTERM)
    run.process.communicate(timeout=120)
    assert '"eval_loss"' in (run.out / "log.jsonl").read_text()


def test_tokens_that_are_cut_under_an_evaluation_end_it(box, tmp_path):
    many = make_tokens(tmp_path / "eval.tokens", rows=20_000)
    run = box.start("cut-eval", train__steps=MANY, train__save_every=2, train__eval_every=2, data__eval=str(many))
    run.wait_until(lambda: "step-000002" in run.checkpoints)
    with many.open("r+b") as file:
        file.seek(many.stat().st_size // 2)
        file.write(b"other tokens")
    said = run.end(expect=3)
    assert f"{many}: was changed while the run read from it" in said
    assert "eval_loss" not in (run.out / "log.jsonl").read_text()


def test_a_file_of_the_base_model_that_is_edited_meanwhile_is_saved_as_it_was(box, tmp_path):
    base = Path(shutil.copytree(box.model, tmp_path / "base"))
    was = (base / "generation_config.json").read_bytes()
    run = box.start("base-edited", model=str(base), train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    (base / "generation_config.json").write_text("{}")
    run.process.send_signal(signal.SIGINT)
    run.end(expect=130)
    assert (Path(run.summary["checkpoint"]) / "generation_config.json").read_bytes() == was


def test_as_many_files_may_be_open_as_the_system_allows(box):
    """A checkpoint of 400 GB has a hundred shards, and shells allow few files."""
    file, out = box.write_job("many-files", train__steps=MANY)
    command = ["sh", "-c", f"ulimit -Sn 64; ulimit -Hn 900; exec {FERRY} train {file}"]
    run = Started(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True), out)
    run.wait_until(lambda: run.steps >= 1)
    for process in descendants(run.process.pid):
        assert resource.prlimit(process, resource.RLIMIT_NOFILE) == (900, 900)
    run.process.send_signal(signal.SIGINT)
    run.end(expect=130)


def test_a_checkpoint_is_written_by_time(box):
    run = box.train("timed", train__steps=3, train__save_minutes=1e-9, train__keep=9)
    assert [path.name for path in sorted((run.out / "checkpoints").iterdir())] == [
        "step-000001", "step-000002", "step-000003",
    ]  # fmt: skip
    assert run.summary["state"] == "done"


def test_a_run_whose_end_is_not_wanted_leaves_what_it_saved_before(box):
    run = box.train("times", train__steps=3, train__save_last=False)
    assert not list((run.out / "checkpoints").glob("*"))
    assert run.summary["state"] == "done" and run.summary["checkpoint"] == ""
    assert "no checkpoint was written (train.save_last)" in run.text
    run = box.train("halfway", train__steps=3, train__save_every=2, train__save_last=False)
    assert [path.name for path in (run.out / "checkpoints").iterdir()] == ["step-000002"]
    assert run.checkpoint.name == "step-000002"


def test_a_loss_that_is_not_finite_leaves_the_state_before_it(box):
    # lr x weight_decay = 1e6: weights grow by that factor every step, and overflow in forward first.
    rates = {"optim__lr": 1000, "optim__weight_decay": 1000, "strategy": "mobius"}
    run = box.train("overflowing", expect=2, **rates)
    steps = len(run.losses)
    assert f"step {steps + 1}: the loss is" in run.text
    told = re.search(r"rows whose loss is not finite: ([\d, ]+)", run.text)[1]
    assert {int(row) for row in told.split(", ")} <= {(6 * steps + i) % 37 + 1 for i in range(6)}
    assert "the first gradient that is not finite, in the order of backward: lm_head.weight" in run.text
    assert f"go on from {run.out}/checkpoints/step-{steps:06d} with --resume" in run.text
    assert run.summary["state"] == "failed" and "diverged" in run.summary["reason"]
    again = box.train("overflowing", "--resume", expect=2, **rates)
    assert f"step {steps + 1}: the loss is" in again.text, "the same step diverges again"


def two_layers(folder, change) -> str:
    """A model whose layers add nothing: its head sees the embeddings, normalised. `change` gets its tensors."""
    from safetensors.torch import load_file, save_file

    make_model(folder, num_hidden_layers=2, rms_norm_eps=1e-44)
    weights = load_file(folder / "model.safetensors")
    for name in weights:
        if "o_proj" in name or "down_proj" in name:
            weights[name].zero_()
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return str(folder)


def test_the_rows_that_overflow_are_named(box, tmp_path):
    """One row has a token that the model holds impossible: its logit is an infinity everywhere, its loss here."""
    from ferry_tools import token_file
    from ferry_tools.samples import Sample

    def change(weights):
        weights["model.embed_tokens.weight"][:, 0] = 1e3
        weights["lm_head.weight"][94] = 0
        weights["lm_head.weight"][94, 0] = -1e38  # times sqrt(64)

    rows = [Sample([1, 2, 3, 4, 5], b"\0\1\1\1\1")] * 6
    rows[3] = Sample([1, 94, 3, 4, 5], b"\0\1\1\1\1")
    token_file.write(tmp_path / "rows.tokens", 96, 95, b"\1" * 32, rows)
    model = two_layers(tmp_path / "base", change)
    run = box.train("row", model=model, data__train=str(tmp_path / "rows.tokens"), expect=2)
    assert "step 1: the loss is inf" in run.text
    assert "rows whose loss is not finite: 3, 4\n" in run.text


def test_a_norm_that_is_not_finite_under_a_finite_loss_is_told(box, tmp_path):
    def change(weights):
        weights["model.embed_tokens.weight"].mul_(1e-41)  # so small that its gradient overflows
        weights["lm_head.weight"].mul_(1e20)

    run = box.train("norm", model=two_layers(tmp_path / "base", change), expect=2)
    assert re.search(r"step 1: the loss is \d+\.\d+ and the gradient norm (-?nan|inf); training has diverged", run.text)
    assert "rows of the step: 1, 2, 3, 4, 5, 6\n" in run.text
    assert run.summary["state"] == "failed"


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
