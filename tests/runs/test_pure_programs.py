"""Papers' programs through the command line: they say what they know, and no more."""

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from conftest import ferry

HARMONY_PROFILE = {
    "format": "harmony-profile-1",
    "model": "small",
    "layer_count": 2,
    "fwd_microbatch_sizes": [1, 2],
    "bwd_microbatch_sizes": [1, 2],
    "layers": [
        {
            "id": layer, "name": "Linear", "x_bytes_per_sample": 100, "w_bytes": 4_000_000, "b_bytes": 8,
            "k_bytes": 8_000_000, "update_cpu_s": 0.5, "fwd_time_s": [1, 2], "bwd_time_s": [3, 6],
            "fwd_memory_bytes": [5_000_000, 5_000_100], "bwd_memory_bytes": [9_000_000, 9_000_100],
        }
        for layer in range(2)
    ],
}  # fmt: skip

PROFILE = """
name: by hand
sequence: 128
blocks:
  - {key: layer, forward: 10 ms, backward: 30 ms, weights: 1 MiB, gradients: 1 MiB, activation: 1 KiB, parameters: 500000}
chain: [layer, layer, layer, layer]
"""

MACHINE = """
name: two
host: {cores: 2, memory: 8 GiB}
devices:
  - {count: 2, kind: cuda, memory: 4 GiB, up: 1 GB/s, down: 1 GB/s}
"""


@pytest.fixture
def job(tmp_path):
    """A job without a model, with a profile of each kind beside it."""
    (tmp_path / "harmony.json").write_text(json.dumps(HARMONY_PROFILE))
    (tmp_path / "profile.yaml").write_text(PROFILE)
    (tmp_path / "machine.yaml").write_text(MACHINE)
    file = tmp_path / "job.yaml"
    file.write_text(
        json.dumps(
            {
                "machine": str(tmp_path / "machine.yaml"),
                "plan": {"profile": str(tmp_path / "profile.yaml")},
                "strategy": "1f1b",
                "train": {"micro_batches": 4},
                "papers": {"pure": True},
                "out": str(tmp_path / "run"),
            }
        )
    )
    return file


def harmony(job):
    return [f"plan.profile={job.parent / 'harmony.json'}", "strategy=harmony-pp"]


def test_a_profile_without_a_sequence_has_no_positions_per_second(job):
    answer = json.loads(ferry("plan", str(job), *harmony(job), "--what-if", "--json").stdout)
    assert answer["positions_per_second"] is None
    assert [row["positions_per_second"] for row in answer["what_if"] if row["fits"]] == [None] * len(
        [row for row in answer["what_if"] if row["fits"]]
    )
    assert "positions/s" not in ferry("plan", str(job), *harmony(job)).stdout


def test_positions_per_second_are_of_the_jobs_batch(job):
    for strategy in ("1f1b", "async-1f1b"):  # whose plan may hold several steps
        answer = json.loads(ferry("plan", str(job), f"strategy={strategy}", "train.micro_batches=1", "--json").stdout)
        assert answer["positions_per_second"] == pytest.approx(128 / answer["step_seconds"])


@pytest.mark.parametrize(("key", "profiles"), [("train.micro_batch_size", 1), ("data.sequence", 128)])
def test_a_job_without_a_model_has_the_batch_of_its_profile(job, key, profiles):
    message = f"profile 'by hand' has {profiles}, and without a model the job has no other; found 2\n  try: leave it out\n"
    assert ferry("plan", str(job), f"{key}=2", expect=2).stderr == f"command line: {key}: {message}"
    ferry("plan", str(job), f"{key}={profiles}")


CLI_PAGE = Path(__file__).parents[2] / "docs/formats/cli.md"
PURE_PROGRAMS = {
    "1f1b": [[]],
    "gpipe": [[]],
    "interleaved": [["plan.chunks=2"]],
    "async-1f1b": [[], ["plan.chunks=2"]],
    "roundpipe": [[], ["papers.flush=false"]],
    "mobius": [[], ["papers.shared_links=true"]],
    "zero": [[], ["papers.states=drives"]],
    "harmony-pp": [[], ["papers.prefetch=false"]],
    "harmony-dp": [[]],
}


def documented(strategy: str, column: int) -> tuple[set[str], set[str]]:
    """The patterns of a pure program's figures (1) or series (2) in cli.md: those that always come, and all."""
    (row,) = [
        line.split(" | ")
        for line in CLI_PAGE.read_text().splitlines()
        if line.startswith("| `") and ", pure |" in line
        and any(fnmatch(strategy, name) for name in re.findall("`([^`]+)`", line.split(" | ")[0]))
    ]  # fmt: skip
    always = re.split(r"\b(?:with|without|where)\b", row[column])[0]
    return set(re.findall("`([^`]+)`", always)), set(re.findall("`([^`]+)`", row[column]))


@pytest.mark.parametrize(
    ("strategy", "changes"), [(name, changes) for name, all_changes in PURE_PROGRAMS.items() for changes in all_changes]
)
def test_a_programs_figures_are_those_that_are_documented(job, tmp_path, strategy, changes):
    (tmp_path / "machine.yaml").write_text(f"{MACHINE}drives:\n  - {{capacity: 1 TiB, read: 3 GB/s, write: 2 GB/s}}\n")
    asked = harmony(job)[:1] if strategy.startswith("harmony") else []
    answer = json.loads(ferry("plan", str(job), *asked, f"strategy={strategy}", *changes, "--json").stdout)
    for column, field in ((1, "figures"), (2, "series")):
        always, known = documented(strategy, column)
        assert [name for name in answer[field] if not any(fnmatch(name, pattern) for pattern in known)] == []
        assert [pattern for pattern in always if not any(fnmatch(name, pattern) for name in answer[field])] == []


def test_a_programs_drives_are_read_and_written(job, tmp_path):
    machine = f"{MACHINE}drives:\n  - {{capacity: 1 TiB, read: 3 GB/s, write: 2 GB/s, endurance: 1 TB}}\n"
    (tmp_path / "drives.yaml").write_text(machine)
    asked = [f"machine={tmp_path / 'drives.yaml'}", "strategy=zero", "papers.states=drives"]
    plan = tmp_path / "zero.plan"
    answer = json.loads(ferry("plan", str(job), *asked, "--json", "-o", str(plan)).stdout)
    use = answer["drives"]["drives"]
    assert use["read_bytes"] == answer["figures"]["drive_read_bytes"] > 0
    assert use["written_bytes"] == answer["figures"]["drive_written_bytes"] > 0
    assert use["life_steps"] == 10**12 // use["written_bytes"]
    simulated = json.loads(ferry("simulate", str(plan), "--endurance", "1 TB", "--json").stdout)["drives"]["drives"]
    assert simulated == {key: use[key] for key in ("read_bytes", "written_bytes", "life_steps")}


def test_packs_beyond_the_budget_do_not_fit(job):
    packs = ["plan.stages=[1]", "plan.backward_stages=[1,1]", "budget.device=8 MB"]
    answer = json.loads(ferry("plan", str(job), *harmony(job), *packs, "--json", expect=4).stdout)
    assert answer["fits"] is False
    assert answer["need_bytes"] > answer["have_bytes"] == 8_000_000


def test_tasks_tell_what_their_names_say(job, tmp_path):
    plan = tmp_path / "1f1b.plan"
    planned = json.loads(ferry("plan", str(job), "strategy=1f1b", "--json", "-o", str(plan)).stdout)
    for answer in (planned, json.loads(ferry("simulate", str(plan), "--json").stdout)):
        (task,) = [row for row in answer["tasks"] if row["task"] == "B.1.0" and row["step"] == 0]
        assert task["kind"] == "backward"
        assert task["resource"] == "gpu1.compute"
        assert (task["block"], task["stage"], task["micro_batch"]) == (2, 1, 0)
        assert task["start"] < task["end"]


def test_an_explanation_claims_no_more_than_was_looked_at(job):
    text = ferry("plan", str(job), "--explain").stdout
    assert "1f1b alone was asked for" in text
    assert "its program's own cost model" in text
    assert "only one that fits" not in text
    assert "of any strategy" not in text


def test_a_single_strategy_is_not_called_the_only_one_that_fits(box):
    file = box.folder / "alone.yaml"
    file.write_text(json.dumps(box.job("alone", plan__profile="estimate")))
    text = ferry("plan", str(file), "--explain").stdout
    assert "resident alone was asked for" in text
    assert "only one that fits" not in text


def test_the_plan_has_the_jobs_precision(job):
    plan = job.parent / "it.plan"
    ferry("plan", str(job), "train.precision=bf16", "-o", str(plan))
    assert " precision=bf16 " in plan.read_text()


def test_a_plan_written_elsewhere_leaves_no_run_folder(job):
    ferry("plan", str(job), "-o", str(job.parent / "it.plan"))
    assert not (job.parent / "run").exists()
    ferry("plan", str(job))
    assert [file.name for file in (job.parent / "run").iterdir()] == ["plan"]


def test_a_plan_that_can_train_leaves_no_run_folder_either(box):
    file = box.folder / "elsewhere.yaml"
    file.write_text(json.dumps(box.job("elsewhere", plan__profile="estimate")))
    ferry("plan", str(file), "-o", str(box.folder / "elsewhere.plan"))
    assert not (box.folder / "elsewhere").exists()


def test_orders_come_through_the_command_line(job):
    order = "papers.order=[F0.0 F0.1 B0.0 B0.1, F1.0 B1.0 F1.1 B1.1]"
    answer = json.loads(ferry("plan", str(job), "train.micro_batches=2", order, "--json").stdout)
    assert answer["figures"]["makespan"] == pytest.approx((20 + 80 + 80 + 60) * 1000)
    assert answer["series"]["in_flight"] == [2, 1]
