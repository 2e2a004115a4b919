"""`import ferry`: the program's answers as dicts, its events as an iterator, its refusals as exceptions."""

import json
import signal
from pathlib import Path

import ferry
import pytest
from conftest import FERRY, Box


@pytest.fixture(autouse=True)
def built_program(monkeypatch):
    monkeypatch.setattr("ferry.program.PLACES", (FERRY,))


def job(box: Box, name: str, **changes) -> dict:
    """A job whose blocks are estimated: measuring takes seconds."""
    return box.job(name, plan__profile="estimate", train__steps=2, **changes)


def test_a_plan_is_made_from_a_mapping_and_simulated(box: Box):
    plan = ferry.plan(job(box, "py-plan"), train={"micro_batches": 2}, **{"optim.betas": [0.8, 0.9]})
    assert plan["fits"] and plan["strategy"] == "resident"
    assert plan.file.read_text().count("F.3.1") > 0 and "F.3.2" not in plan.file.read_text()
    assert ferry.simulate(plan)["step_seconds"] == pytest.approx(plan["step_seconds"])


def test_what_does_not_fit_is_raised_with_what_would(box: Box):
    with pytest.raises(ferry.DoesNotFit) as refused:
        ferry.plan(job(box, "py-small", budget__device="64 KiB"))
    assert refused.value.place == "gpu0" and refused.value.need_bytes > refused.value.have_bytes == 64 << 10
    assert refused.value.remedies and refused.value.remedies[0]["change"] in str(refused.value)


def test_an_error_is_raised_with_the_programs_words_alone(box: Box):
    with pytest.raises(ferry.UserError) as refused:
        ferry.plan(job(box, "py-wrong"), learning_rate=1e-5)
    assert str(refused.value) == (
        "command line: 'learning_rate=1e-05': unknown key 'learning_rate'; ferry calls it 'optim.lr'"
    )
    with pytest.raises(ferry.UserError, match="data.train"):
        list(ferry.train(job(box, "py-empty", data__train=None)))


def test_training_is_an_iterator_of_events(box: Box):
    run = ferry.train(job(box, "py-train", train__save_every=1))
    events = list(run)
    kinds = [event["event"] for event in events]
    assert kinds[0] in ("phase", "progress", "plan")  # planning that is not kept tells how far it is
    assert kinds.count("step") == 2 and kinds.count("saved") == 2 and kinds[-1] == "finished"
    out = Path(box.job("py-train")["out"])
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    assert losses == [line["loss"] for line in log]
    assert run.finished["checkpoint"] == str(out / "checkpoints/step-000002")


@pytest.fixture
def in_the_background():
    """As below `nohup python script.py &`, where the shell has SIGINT ignored, and all children inherit that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_run_that_is_left_early_is_saved_and_goes_on(box: Box, in_the_background):
    endless = job(box, "py-left")
    with ferry.train(endless, train={"steps": 100000}) as run:
        first = next(event for event in run if event["event"] == "step")
    saved = sorted((Path(endless["out"]) / "checkpoints").iterdir())
    assert first["step"] == 1 and len(saved) == 1
    steps = int(saved[0].name.removeprefix("step-")) + 1
    again = list(ferry.train(endless, train={"steps": steps}, resume=True))
    assert [event["step"] for event in again if event["event"] == "step"] == [steps]
    (nothing,) = ferry.train(endless, train={"steps": steps}, resume=True)
    assert nothing["event"] == "finished" and nothing["steps"] == steps


@pytest.fixture
def program_that(tmp_path, monkeypatch):
    """A program of these lines of shell in place of ferry."""

    def say(*lines: str) -> None:
        file = tmp_path / "ferry"
        file.write_text("\n".join(["#!/bin/sh", *lines]))
        file.chmod(0o755)
        monkeypatch.setattr("ferry.program.PLACES", (file,))

    return say


@pytest.mark.parametrize("half", ['{"event": "st', '{"out": "/data/\\303'])
def test_of_a_run_that_is_killed_while_it_writes_the_failure_is_raised(program_that, half):
    program_that("""printf '{"event": "step", "step": 1}\\n%b' '""" + half + "'", "echo a note >&2", "kill -9 $$")
    run = ferry.train({})
    assert next(run) == {"event": "step", "step": 1}
    with pytest.raises(ferry.FerryError, match="^a note\nferry was ended by signal 9: Killed$"):
        next(run)


def test_of_a_plan_that_is_killed_while_it_is_told_the_failure_is_raised(program_that):
    program_that("""printf '{"fits": tr'""", "kill -9 $$")
    with pytest.raises(ferry.FerryError, match="^ferry was ended by signal 9: Killed$"):
        ferry.plan({})


def test_of_a_run_whose_trainer_is_killed_the_watchers_words_are_raised(program_that):
    program_that("""printf '{"event": "st'""", "echo killed by the kernel, which was short of memory >&2", "exit 3")
    with pytest.raises(ferry.ResourceError, match="^killed by the kernel, which was short of memory$"):
        list(ferry.train({}))
