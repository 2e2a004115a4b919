"""What a run takes of memory is what was promised, evaluation included."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import FERRY, Box, Run, ferry, machine
from ferry_tools import token_file
from ferry_tools.samples import Sample

EVALUATES = {"train__steps": 2, "train__eval_every": 1, "data__eval_fraction": 0.2, "strategy": "mobius"}


def thriftiest(box: Box, name: str, **changes) -> int:
    """The least device budget that is said to fit: what the answers to smaller ones say is needed."""
    budget = 1024
    for _ in range(8):
        job = box.job(name, budget__device=f"{budget} B", **changes)
        file = box.folder / f"{name}.yaml"
        file.write_text(json.dumps(job))
        done = subprocess.run([FERRY, "plan", file, "--json"], capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 4), done.stderr
        if done.returncode == 0:
            return budget
        budget = json.loads(done.stdout)["need_bytes"]
    raise AssertionError(f"{budget} B were not enough, though said to be needed")


def expect_within(run: Run, budget: int) -> None:
    assert len([line for line in run.log if "eval_loss" in line]) == 2
    summary = run.summary
    assert summary["measured_peak_bytes"]["gpu0"] <= summary["predicted_peak_bytes"]["gpu0"] <= budget


@pytest.mark.parametrize("made", ["box", "tied_box", "gpt2_box"])
def test_a_job_trains_and_evaluates_within_the_least_budget_that_is_said_to_fit(request, made):
    box = request.getfixturevalue(made)
    least = thriftiest(box, "thrifty", **EVALUATES)
    run = box.train(f"thrifty-{least}", budget__device=f"{least} B", **EVALUATES)
    expect_within(run, least)
    starved = box.train("starved", expect=4, **EVALUATES | {"budget__device": f"{least - 8192} B"})
    assert "does not fit: gpu0 needs" in starved.text and "fits with" in starved.text
    assert not (starved.out / "log.jsonl").exists()


@pytest.mark.parametrize("sequence", [25, 50])
def test_tables_that_do_not_fill_blocks_of_memory_are_counted(box, sequence):
    """Cosines and sines of 50 positions, say: a device has whole blocks of 512 bytes for them."""
    run = box.train(f"odd-{sequence}", train__steps=1, data__sequence=sequence, strategy="resident")
    assert run.summary["measured_peak_bytes"]["gpu0"] <= run.summary["predicted_peak_bytes"]["gpu0"]


def test_a_plan_file_is_evaluated_within_its_own_budgets(box):
    job = box.job("given", budget__device="1 MiB", **EVALUATES)
    file = box.folder / "given.yaml"
    file.write_text(json.dumps(job))
    plan = box.folder / "given.plan"
    ferry("plan", str(file), "-o", str(plan))
    run = box.train("given", "--plan", str(plan), budget__device="1 MiB", **EVALUATES)
    expect_within(run, 1 << 20)


def test_documents_of_many_lengths_leave_no_kernels_behind(box, tmp_path):
    """Packed documents in bf16: a product's kernels were kept for each of the last 1,024 shapes, 0.7 MB each."""
    lengths = [5 + n * 37 % 200 for n in range(400)]
    samples = [Sample([n % 90 for n in range(length)], b"\1" * length) for length in lengths]
    token_file.write(tmp_path / "long.tokens", 96, 95, b"\1" * 32, samples)
    shutil.copytree(box.model, tmp_path / "base")
    config = json.loads((tmp_path / "base/config.json").read_text())
    (tmp_path / "base/config.json").write_text(json.dumps(config | {"max_position_embeddings": 256}))
    files = {"model": str(tmp_path / "base"), "data__train": str(tmp_path / "long.tokens")}
    many = {"train__steps": 25, "train__precision": "bf16", "data__sequence": 256, "data__packing": True}
    run = box.train("many-lengths", **files, **many)
    peaks = [line["peak_bytes"]["host"] for line in run.log]
    assert peaks[-1] - peaks[9] < 24 << 20, [peak >> 20 for peak in peaks]


def free_memory() -> int:
    return int(re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())[1]) << 10


def test_without_a_machine_and_budgets_device_and_host_share_what_is_free(box):
    job = box.job("whole-box", budget={}, plan__profile="estimate")
    del job["machine"]
    file = box.folder / "whole-box.yaml"
    file.write_text(json.dumps(job))
    before = free_memory()
    places = json.loads(ferry("plan", str(file), "--json").stdout)["places"]
    promised = sum(place["budget"] for place in places.values())
    assert 0 < promised <= max(before, free_memory())  # other programs come and go


def test_a_machine_file_that_promises_more_memory_than_this_box_has_is_refused_when_it_runs(box):
    """Plans believe a machine file; what runs here takes the memory of this box."""
    large = json.loads(machine(box.folder, 1).read_text())
    large["host"]["memory"] = large["devices"][0]["memory"] = "1000 TiB"
    file = box.folder / "large.yaml"
    file.write_text(json.dumps(large))
    plan = box.folder / "large.plan"
    job = box.folder / "large-job.yaml"
    job.write_text(json.dumps(box.job("large", machine=str(file), budget__host="1000 TiB")))
    ferry("plan", str(job), "-o", str(plan))
    lines = plan.read_text().splitlines()
    host = next(number for number, line in enumerate(lines) if line.startswith("place host"))
    assert "workspace=0" in lines[host]
    lines[host] = lines[host].replace("workspace=0", f"workspace={900 << 40}")
    plan.write_text("\n".join(lines) + "\n")
    done = ferry("train", str(job), "--plan", str(plan), expect=3)
    assert "this run takes 900.0" in done.stderr and "can be taken (" in done.stderr, done.stderr
    assert not (box.folder / "large" / "job.yaml").exists()
