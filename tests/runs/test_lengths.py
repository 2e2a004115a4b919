"""How long a run is, and its sequences are, when the job leaves it to data and model."""

import json

from conftest import Box, ferry


def test_epochs_become_steps_that_are_told_and_stored(box: Box):
    run = box.train("epochs", train__steps=0, train__epochs=0.5)
    assert "0.5 epochs of 37 rows: 4 steps" in run.text  # 18.5 rows, 6 per step
    assert len(run.losses) == 4
    job = (run.out / "job.yaml").read_text()
    assert "  steps: 4\n" in job and "  epochs: 0\n" in job


def test_a_sequence_left_out_is_as_long_as_the_model_takes(box: Box):
    file = box.folder / "long.yaml"
    file.write_text(json.dumps(box.job("long", data__sequence=None, plan__profile="estimate")))
    plan = box.folder / "long.plan"
    ferry("plan", str(file), "-o", str(plan))
    assert " sequence=64 " in plan.read_text().replace("\n", " ")
