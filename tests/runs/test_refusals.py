"""What cannot be done is said at once, with the right exit code, and nothing is left behind."""

import json
import re
import shutil

import pytest
from conftest import contents, ferry, machine, make_tokens, states_bytes


def test_a_budget_that_is_too_small_names_need_have_and_remedies(box):
    run = box.train("tiny", strategy="mobius", budget__device="64 KiB", expect=4)
    assert "does not fit: gpu0 needs" in run.text
    assert "fits with" in run.text
    assert "budget.device" in run.text


def test_does_not_fit_as_json_offers_remedies_that_fit(box):
    job = box.job("tiny-json", strategy="mobius", budget__device="64 KiB")
    file = box.folder / "tiny-json.yaml"
    file.write_text(json.dumps(job))
    answer = json.loads(ferry("plan", str(file), "--json", expect=4).stdout)
    assert answer["fits"] is False
    assert answer["need_bytes"] > answer["have_bytes"] == 65536
    fitting = [r["change"] for r in answer["remedies"] if r["change"].startswith("budget.device")]
    assert fitting, answer["remedies"]
    for change in fitting:
        ferry("plan", str(file), change.replace(": ", "="))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("train.mirco_batches=2", "micro_batches"),
        ("train.steps=abc", "train.steps"),
        ("strategy=async-1f1b", "async-1f1b"), ("strategy=harmony", "expected one of"),
        ("data.sequence=4096", "sequence"),
        ("model=nowhere", "nowhere"),
        ("data.train=nowhere.tokens", "nowhere.tokens"),
    ],
)
def test_bad_values_exit_2_and_name_what_is_wrong(box, override, said):
    file = box.folder / "bad.yaml"
    file.write_text(json.dumps(box.job("bad")))
    done = ferry("train", str(file), override, expect=2)
    assert said in done.stderr


@pytest.mark.parametrize("key", ["machine", "model", "plan.profile"])
def test_a_file_that_is_not_there_is_told_with_who_names_it(box, key):
    file = box.folder / "absent.yaml"
    file.write_text(json.dumps(box.job("absent")))
    for command in ("plan", "train"):
        said = ferry(command, str(file), f"{key}=typo.yaml", expect=2).stderr
        assert f"command line: {key}: typo.yaml: cannot be read" in said


@pytest.mark.parametrize(
    ("changes", "override", "key", "found"),
    [
        ({"strategy": "1f1b"}, "plan.devices=[0,7]", "plan.devices", "found 7"),
        ({"strategy": "mobius"}, "plan.devices=[7]", "plan.devices", "found 7"),
        ({"strategy": "1f1b"}, "plan.stages=[1,1]", "plan.stages", "have 2 blocks"),
        ({"strategy": "mobius"}, "plan.stages=[1,1]", "plan.stages", "have 2 blocks"),
        ({"strategy": "roundpipe"}, "plan.backward_stages=[1,1]", "plan.backward_stages", "have 2 blocks"),
        ({"strategy": "mobius"}, "plan.map=v", "plan.map", "cross or sequential"),
        ({"papers": {"pure": True}, "strategy": "gpipe"}, "plan.stages=[1,1]", "plan.stages", "have 2 blocks"),
        ({"papers": {"pure": True}, "strategy": "harmony-pp"}, "plan.backward_stages=[1]", "plan.backward_stages",
         "have 1 blocks"),
        ({"papers": {"pure": True}, "strategy": "harmony-pp"}, "papers.packing=best", "papers.packing", "not known"),
        ({"strategy": "auto"}, "papers.pure=true", "papers.pure", "do not compete"),
    ],
)
def test_what_planning_refuses_names_where_the_key_was_given(box, changes, override, key, found):
    file = box.folder / "misfit.yaml"
    file.write_text(json.dumps(box.job("misfit", **changes, plan={"profile": "estimate"})))
    done = ferry("plan", str(file), override, expect=2)
    assert done.stderr.splitlines()[-1].startswith(f"command line: {key}: "), done.stderr
    assert found in done.stderr


def test_what_planning_refuses_names_the_line_of_the_job_file(box):
    file = box.folder / "misfit-line.yaml"
    job = json.dumps(box.job("misfit-line", strategy="1f1b"))
    file.write_text(job[:-1] + ',\n "plan": {"profile": "estimate",\n  "devices": [0, 7]}}\n')
    done = ferry("plan", str(file), expect=2)
    assert done.stderr.splitlines()[-1].startswith(f"{file}:3: plan.devices: expected devices from 0 to"), done.stderr


def planned(box, name: str, **changes):
    """A job's file and its plan's."""
    file, plan = box.write_job(name, **changes)[0], box.folder / f"{name}.plan"
    ferry("plan", str(file), "-o", str(plan))
    return file, plan


def test_a_plan_for_another_job_is_refused(box):
    file, plan = planned(box, "other")
    done = ferry("train", str(file), "train.micro_batches=2", "--plan", str(plan), expect=2)
    assert "another job" in done.stderr


def test_a_plan_of_other_sizes_is_refused(box):
    file, plan = planned(box, "sizes")
    text = plan.read_text()
    size = int(re.search(r"^value S\.1 bytes=(\d+)$", text, re.MULTILINE)[1])
    for smaller, said in ((size - 8, "multiple of"), (size - 512, f"expected {size} of this model")):
        plan.write_text(text.replace(f"value S.1 bytes={size}\n", f"value S.1 bytes={smaller}\n"))
        done = ferry("train", str(file), "--plan", str(plan), expect=2)
        assert f"S.1 has {smaller} bytes" in done.stderr and said in done.stderr, done.stderr
    for value in ("N.1", "L.0", "C", "X.0", "A.1.0", "dA.1.0", "G.1"):
        size = int(re.search(rf"^value {value} bytes=(\d+)$", text, re.MULTILINE)[1])
        changed = re.sub(rf"^(value {value} bytes=)\d+$", rf"\g<1>{size - 1}", text, flags=re.MULTILINE)
        plan.write_text(re.sub(rf"^(task {value}>.* bytes=){size}\b", rf"\g<1>{size - 1}", changed, flags=re.MULTILINE))
        done = ferry("train", str(file), "--plan", str(plan), expect=2)
        assert f"{value} has {size - 1} bytes in the plan; expected {size}" in done.stderr, done.stderr


def test_a_plan_whose_slots_are_not_aligned_is_refused(box):
    file, plan = planned(box, "aligned")
    text = plan.read_text()
    offset = int(re.search(r"^instance C@gpu0 offset=(\d+)$", text, re.MULTILINE)[1])
    plan.write_text(text.replace(f"instance C@gpu0 offset={offset}\n", f"instance C@gpu0 offset={offset + 3}\n"))
    done = ferry("train", str(file), "--plan", str(plan), expect=2)
    assert f"C@gpu0 begins at byte {offset + 3}; expected a multiple of 8" in done.stderr, done.stderr


def test_a_job_whose_part_to_evaluate_on_is_no_row_is_refused(box):
    changes = {"data__eval_fraction": 1e-6, "train__eval_every": 2}
    said = box.train("nothing-held-out", expect=2, **changes).text
    assert "'train.eval_every' needs something to evaluate on" in said and "nothing-held-out.yaml:1: " in said
    assert "measuring" not in said and not (box.folder / "nothing-held-out").exists()


def test_a_path_that_is_no_utf8_is_told_in_json_all_the_same(box):
    file = box.folder / "bytes.yaml"
    file.write_text(json.dumps(box.job("bytes")))
    done = ferry("plan", str(file), f"out={box.folder}/\udcff", "--json")
    assert json.loads(done.stdout)["strategy"] == "resident"


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_plan_for_more_devices_than_there_are_is_refused(box, evaluates):
    file, plan = planned(box, "two", strategy="mobius", machine=str(machine(box.folder, 2)), budget__device="2 MiB")
    job = json.loads(file.read_text())
    job["data"]["eval_fraction"] = 0.2 if evaluates else 0
    file.write_text(json.dumps(job | {"machine": str(machine(box.folder, 1))}))
    done = ferry("train", str(file), "--plan", str(plan), expect=2)
    assert "other devices or drives: its device 2 is 'gpu1', here it is no more" in done.stderr, done.stderr


def test_a_plan_with_a_dropped_dependency_is_refused_before_it_runs(box):
    file, plan = planned(box, "dropped", strategy="mobius", budget__device=f"{states_bytes(box.model) // 8} B")
    lines = plan.read_text().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("task F.3.0 "):
            words = [w for w in line.split() if not w.startswith("after=")]
            assert len(words) < len(line.split())
            lines[number] = " ".join(words)
    plan.write_text("\n".join(lines) + "\n")
    done = ferry("train", str(file), "--plan", str(plan), expect=2)
    assert "F.3.0" in done.stderr
    ferry("simulate", str(plan), expect=2)


def test_simulate_reports_every_task_and_a_timeline(box):
    file = box.folder / "simulated.yaml"
    file.write_text(json.dumps(box.job("simulated")))
    plan = box.folder / "simulated.plan"
    planned = json.loads(ferry("plan", str(file), "-o", str(plan), "--json").stdout)
    page = box.folder / "simulated.html"
    simulated = json.loads(ferry("simulate", str(plan), "--json", "--html", str(page)).stdout)
    assert simulated["step_seconds"] == pytest.approx(planned["step_seconds"])
    assert planned["step_seconds"] >= planned["lower_bound_seconds"] > 0
    assert {task["task"] for task in simulated["tasks"]} >= {"F.0.0", "B.0.2", "U.0", "clip"}
    assert json.loads((box.folder / "simulated.plan.trace.json").read_text())["traceEvents"]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert 0 <= simulated["bubble"] < 1
    moved = sum(resource["bytes"] for resource in simulated["resources"].values())
    assert simulated["bytes_moved"] == moved and simulated["bandwidth_cdf"][-1][1] == 1
    assert all(simulated["held_bytes"][place] <= peak for place, peak in simulated["peak_bytes"].items())
    assert "mean bubble" in ferry("simulate", str(plan), "--endurance", "600 TB").stdout
    assert "--endurance: " in ferry("simulate", str(plan), "--endurance", "much", expect=2).stderr


def test_a_nan_in_a_weight_that_no_token_reads_is_named_before_training(box, tmp_path):
    from safetensors.torch import load_file, save_file

    model = shutil.copytree(box.model, tmp_path / "damaged")
    weights = load_file(model / "model.safetensors")
    weights["model.embed_tokens.weight"][94, 7] = float("nan")
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    tokens = make_tokens(tmp_path / "below-90.tokens", 5, vocabulary=90)
    run = box.train("nan-weight", model=str(model), data__train=str(tokens), expect=2)
    said = f"{model / 'model.safetensors'}: tensor 'model.embed_tokens.weight' is nan at [94, 7]; expected finite numbers"
    assert said in run.text
    assert not (run.out / "checkpoints").exists() or not list((run.out / "checkpoints").iterdir())
    assert "step     1/" not in run.text
    assert contents(run.out) == {}


def test_a_weight_that_bf16_does_not_hold_is_named_before_training(box, tmp_path):
    from safetensors.torch import load_file, save_file

    model = shutil.copytree(box.model, tmp_path / "large")
    weights = load_file(model / "model.safetensors")
    weights["model.embed_tokens.weight"][3, 5] = -3.4e38
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    run = box.train("large", model=str(model), train__precision="bf16", expect=2)
    said = "tensor 'model.embed_tokens.weight' is -3.4e+38 at [3, 5], an infinity in bf16; expected numbers below 3.396e38"
    assert f"{model / 'model.safetensors'}: {said}" in run.text and "try: train.precision: fp32" in run.text
    assert not list(run.out.glob("checkpoints/*"))


def test_a_diverging_run_stops_with_what_to_do_and_keeps_what_was_saved(box):
    # lr x weight_decay = 1e6: weights grow by that factor every step until fp32 ends.
    rates = {"optim__lr": 1000, "optim__weight_decay": 1000, "optim__clip": None}
    run = box.train("diverging", train__save_every=1, expect=2, **rates)
    assert "no longer finite" in run.text or "diverged" in run.text
    assert "optim.lr" in run.text
    saved = sorted(folder.name for folder in (run.out / "checkpoints").iterdir())
    assert saved, "the steps before were saved"
    assert all(name.startswith("step-") and not name.endswith(".tmp") for name in saved)
