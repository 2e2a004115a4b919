"""`ferry report`: a run as a page that needs no network, and as a table."""

import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ferry

sys.path.append(str(Path(__file__).parents[2] / "src/report"))
from test_timeline_page import Browser, Tags  # noqa: E402


def step(number: int, **changes) -> dict:
    line = {
        "step": number, "loss": 6 - number / 2, "lr": 0.001, "grad_norm": 1.5, "tokens": 100, "learned_tokens": 60,
        "step_seconds": 0.5, "tokens_per_second": 200.0, "stall": 0.25, "peak_bytes": {"gpu0": 8, "host": 64},
    }  # fmt: skip
    return line | changes


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a run of four steps that has ended."""
    lines = [step(1), step(2), {"step": 2, "eval_loss": 5.25}, step(3, grad_norm=40.0), step(4)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = {
        "predicted_step_seconds": 0.4, "measured_step_seconds": 0.5, "checkpoint": "runs/x/checkpoints/step-000004",
        "predicted_peak_bytes": {"gpu0": 8}, "measured_peak_bytes": {"gpu0": 8, "host": 64},
    }  # fmt: skip
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "environment.json").write_text('{"torch": "2.13.0", "cores": 2}')
    shutil.copy(Path(__file__).parents[2] / "src/plan/testdata/smallest.plan", tmp_path / "plan")
    return tmp_path


@pytest.fixture
def browser(run):
    ferry("report", str(run))
    opened = Browser((run / "report.html").read_text(), dark=False, canvas="loss")
    yield opened
    opened.engine.close()


CURVES = {
    "lr": [0.001, 0.002, 0.003, 0.004], "grad_norm": [1.5, 1.5, 40.0, 1.5], "tokens_per_second": [200, 150, 150, 100],
    "stall": [0.25, 0.5, 0.5, 0.75],
}  # fmt: skip


@pytest.mark.parametrize("canvas", CURVES)
def test_lr_norm_rate_and_stall_are_curves_through_every_step(run, canvas):
    changed = [step(number, **{name: values[number - 1] for name, values in CURVES.items()}) for number in (1, 2, 3, 4)]
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
    ferry("report", str(run))
    opened = Browser((run / "report.html").read_text(), dark=False, canvas=canvas)
    opened.fire("window", "resize")
    curve = opened.drawn(canvas)["lines"][5:]  # behind the grid's
    opened.engine.close()
    assert len(curve) == 3
    rises = [before - after for _, before, _, after in curve]  # y grows downwards
    steps = list(zip(CURVES[canvas], CURVES[canvas][1:]))
    assert [(rise > 0) - (rise < 0) for rise in rises] == [(after > before) - (after < before) for before, after in steps]


def test_the_table_has_the_logs_numbers(run):
    ferry("report", str(run))
    rows = list(csv.DictReader((run / "log.csv").open()))
    assert [row["step"] for row in rows] == ["1", "2", "3", "4"]
    assert [row["eval_loss"] for row in rows] == ["", "5.25", "", ""]
    assert float(rows[2]["grad_norm"]) == 40
    assert rows[0]["peak_bytes_host"] == "64"


def test_the_page_is_whole_and_links_the_plans_page_alone(run, browser):
    page = (run / "report.html").read_text()
    tags = Tags(page)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert not re.search(r"https?:|//[a-z]+\.|\bsrc\s*=|\bhref\s*=\s*\"|@import|url\(", page)
    assert browser.data["timeline"] == "plan.html"
    assert "ferry timeline" in (run / "plan.html").read_text()
    assert browser.text("plan") == "the plan's timeline"


def test_a_curve_leads_through_every_step_and_evaluations_are_points(browser):
    browser.fire("window", "resize")
    drawing = browser.drawn("loss")
    curve = drawing["lines"][5:]  # behind the grid's
    assert len(curve) == 3
    assert all(x1 > x0 and y1 > y0 for x0, y0, x1, y1 in curve)  # the loss falls: y grows
    points = [fill for fill in drawing["fills"] if fill[4] == 5]
    assert len(points) == 1
    assert points[0][2] + 2.5 == pytest.approx(curve[0][2])


def test_the_cursor_shows_a_steps_numbers(browser):
    browser.fire("grad_norm", "pointermove", offsetX=950, offsetY=20)
    assert browser.text("at") == "step 4: loss 4.0000, norm 1.5, lr 1.00e-3, 200 tok/s, stall 25.0 %"
    browser.fire("grad_norm", "pointerleave")
    assert browser.text("at") == ""


def test_the_tables_compare_and_tell_what_it_ran_on(browser):
    assert browser.text("summary") == "4 steps, loss 5.5000 to 4.0000, eval loss 5.2500 after step 2"
    assert "step\n400.00 ms\n500.00 ms\n1.250" in browser.text("comparison")
    assert "torch\n2.13.0" in browser.text("facts")


def test_a_run_that_goes_on_has_a_report_without_its_half_written_line(run):
    (run / "summary.json").write_text(json.dumps(json.loads((run / "summary.json").read_text()) | {"state": "running"}))
    with (run / "log.jsonl").open("a") as log:
        log.write('{"step": 5, "lo')
    ferry("report", str(run))
    page = (run / "report.html").read_text()
    assert json.loads(Tags(page).scripts[0])["comparison"] == []
    assert len((run / "log.csv").read_text().splitlines()) == 5


def test_what_is_no_run_is_said(run, tmp_path):
    assert "no such file" in ferry("report", str(tmp_path / "none"), expect=2).stderr
    (run / "log.jsonl").write_text('{"step": 1, "loss": 2}\n')
    assert "log.jsonl:1: not a line" in ferry("report", str(run), expect=2).stderr
    (run / "log.jsonl").write_text('{"step": "one", "eval_loss": 2}\n')
    assert "log.jsonl:1: not a line" in ferry("report", str(run), expect=2).stderr


@pytest.mark.parametrize("summary", ["[]", "3", '{"state": 3}', '{"state": "done", "predicted_step_seconds": "1"}'])
def test_a_summary_of_something_else_is_said(run, summary):
    (run / "summary.json").write_text(summary)
    assert "summary.json: not a run's summary" in ferry("report", str(run), expect=2).stderr


def test_a_prediction_of_nothing_is_compared_without_a_ratio(run):
    summary = json.loads((run / "summary.json").read_text()) | {"predicted_peak_bytes": {"gpu0": 0}}
    drive = {"predicted_per_step": {"read": 0, "written": 1}, "measured": {"read": 1, "written": 1}, "steps": 0.5, "io": "x"}
    (run / "summary.json").write_text(json.dumps(summary | {"predicted_step_seconds": 0, "drives": {"drive0": drive}}))
    ferry("report", str(run))
    rows = json.loads(Tags((run / "report.html").read_text()).scripts[0])["comparison"]
    assert [row["what"] for row in rows] == ["step", "peak gpu0", "peak host"]
    assert not any("ratio" in row for row in rows)


def test_a_run_tells_tensorboard_its_steps(box):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = box.train("told-others", train__steps=3, train__report_to="tensorboard")
    events = EventAccumulator(str(run.out / "tensorboard")).Reload()
    shown = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert shown == [(step, pytest.approx(loss)) for step, loss in enumerate(run.losses, 1)]
    assert {"train/lr", "train/grad_norm", "train/tokens_per_second"} <= set(events.Tags()["scalars"])
