"""What `ferry plan` prints: what rests where, what more memory would save, in lines that fit."""

import json
import re

import pytest
from conftest import ferry

CONFIG = {
    "architectures": ["GPT2LMHeadModel"],
    "model_type": "gpt2",
    "n_layer": 8,
    "n_embd": 512,
    "n_head": 8,
    "n_positions": 256,
    "vocab_size": 8000,
}
STATES = 600 << 20  # bytes of weights, optimizer state and gradient sums, with room for copies of weights
WIDEST = 100  # columns


@pytest.fixture
def job(tmp_path):
    """A job whose states fit on no GPU; machines with and without drives."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(CONFIG))
    machine = {
        "name": "pair",
        "host": {"cores": 8, "memory": "8 GiB", "memory_bandwidth": "20 GB/s"},
        "devices": [
            {"count": 2, "kind": "cuda", "memory": "160 MiB", "fp32": "20 TFLOP/s", "bf16": "20 TFLOP/s",
             "memory_bandwidth": "400 GB/s", "up": "4 GB/s", "down": "4 GB/s"},
        ],
    }  # fmt: skip
    (tmp_path / "pair.yaml").write_text(json.dumps(machine))
    machine["drives"] = [{"count": 2, "capacity": "20 GiB", "read": "3 GB/s", "write": "2 GB/s", "duplex": False}]
    (tmp_path / "drives.yaml").write_text(json.dumps(machine))
    file = tmp_path / "job.yaml"
    job = {
        "model": str(model),
        "data": {"sequence": 256},
        "train": {"micro_batches": 4, "micro_batch_size": 1, "precision": "bf16"},
        "machine": str(tmp_path / "pair.yaml"),
        "plan": {"profile": "estimate"},
        "out": str(tmp_path / "run"),
    }
    file.write_text(json.dumps(job))
    return file


def plan_json(job, *changes) -> dict:
    return json.loads(ferry("plan", str(job), "--json", *changes).stdout)


def purposes(place: dict) -> int:
    return place["weights"] + place["optimizer state"] + place["gradients"]


def row_of(text: str, name: str) -> str:
    (row,) = [line for line in text.splitlines() if line.startswith(name)]
    return row


def test_what_is_at_home_is_a_part_of_what_the_purposes_say(job):
    places = plan_json(job, "strategy=mobius")["places"]
    assert sum(place["at_home"] for place in places.values()) <= STATES
    for name in ("gpu0", "gpu1"):
        assert 0 < places[name]["at_home"] < purposes(places[name])
    assert 0 < places["host"]["at_home"] <= purposes(places["host"])


def test_without_homes_devices_have_next_to_nothing_at_home(job):
    rests = plan_json(job, "strategy=mobius")["places"]
    passes = plan_json(job, "strategy=mobius", "plan.without=homes")["places"]
    for name in ("gpu0", "gpu1"):
        assert passes[name]["at_home"] < rests[name]["at_home"]


def test_a_resident_plan_is_at_home_on_its_device(job, tmp_path):
    large = json.loads((tmp_path / "pair.yaml").read_text())
    large["devices"][0] |= {"count": 1, "memory": "2 GiB"}
    (tmp_path / "large.yaml").write_text(json.dumps(large))
    places = plan_json(job, "strategy=resident", f"machine={tmp_path / 'large.yaml'}")["places"]
    assert places["gpu0"]["at_home"] == purposes(places["gpu0"]) > 0
    assert places["host"]["at_home"] == 0


def test_the_table_has_a_row_of_what_is_at_home_behind_the_purposes(job):
    text = ferry("plan", str(job)).stdout
    lines = [line[:16].strip() for line in text.splitlines()]
    at = lines.index("of these at home")
    assert lines[at - 1] == "workspace" and lines[at + 1] == "free"
    assert len(re.findall(r"[\d.]+ [KMG]iB", row_of(text, "of these at home"))) == 3


def test_the_explanation_says_what_more_of_each_memory_saves(job, tmp_path):
    done = ferry("plan", str(job), "--explain")
    assert "planning with more memory  2 plans" in done.stderr
    head = done.stdout.splitlines().index(row_of(done.stdout, "with more memory"))
    rows = done.stdout.splitlines()[head + 1 : head + 3]
    assert rows[0].split()[:5] == ["each", "device", "20.0", "MiB", "180.0"]
    assert rows[1].split()[:5] == ["DRAM", "512.0", "MiB", "8.5", "GiB"]
    for row in rows:
        assert re.search(r"  (\d[\d.]* m?u?s, \d+\.\d%|0\.00 s: limited by \S+)$", row), row

    drives = ferry("plan", str(job), f"machine={tmp_path / 'drives.yaml'}", "--explain")
    assert "planning with more memory  3 plans" in drives.stderr
    assert row_of(drives.stdout, "each drive").split()[2:6] == ["1.0", "GiB", "21.0", "GiB"]


def test_the_explanations_figures_stand_in_the_json_too(job):
    answer = plan_json(job, "--explain")
    assert [row["what"] for row in answer["more_memory"]] == ["each device", "DRAM"]
    clipped = answer["clipped_step_seconds"] or answer["step_seconds"]
    expected = 0.8 * answer["step_seconds"] + 0.2 * clipped  # plan.clipped: 0.2
    for row in answer["more_memory"]:
        assert row["step_seconds"] + row["saved_seconds"] == pytest.approx(expected)
        assert row["saved"] == pytest.approx(row["saved_seconds"] / expected)
        assert row["saved"] >= 0
    assert plan_json(job)["more_memory"] == []


def test_a_kept_plan_answers_as_the_search_did(job, tmp_path):
    machine = json.loads((tmp_path / "pair.yaml").read_text())
    machine["host"]["memory_bandwidth"] = "8 GB/s"  # so low that some updates go ahead of the norm
    machine["devices"][0] |= {"count": 1, "bf16": "2 TFLOP/s", "up": "8 GB/s", "down": "8 GB/s"}
    (tmp_path / "slow-host.yaml").write_text(json.dumps(machine))
    asked = (job, "--explain", f"machine={tmp_path / 'slow-host.yaml'}")
    searched, kept = plan_json(*asked), plan_json(*asked)
    assert searched["clipped_step_seconds"] > searched["step_seconds"]
    for answer in (searched, kept):
        for candidate in answer["candidates"]:
            del candidate["passes"]  # a kept plan took none
    assert kept == searched


def test_what_a_device_saves_is_what_a_plan_for_it_says(job, tmp_path):
    machine = json.loads((tmp_path / "pair.yaml").read_text())
    machine["devices"][0]["memory"] = "180 MiB"
    (tmp_path / "more.yaml").write_text(json.dumps(machine))
    said = plan_json(job, "--explain")["more_memory"][0]
    found = plan_json(job, f"machine={tmp_path / 'more.yaml'}")
    assert said["step_seconds"] == pytest.approx(min(found["step_seconds"], plan_json(job)["step_seconds"]))


@pytest.fixture
def fast_links(job, tmp_path):
    """With a machine whose links never bind, so that schedules take equally long."""
    machine = json.loads((tmp_path / "pair.yaml").read_text())
    machine["devices"][0] |= {"count": 1, "up": "4 TB/s", "down": "4 TB/s"}
    machine["host"] |= {"memory_bandwidth": "40 TB/s", "update_rate": "4000 G parameters/s"}
    (tmp_path / "fast.yaml").write_text(json.dumps(machine))
    return f"machine={tmp_path / 'fast.yaml'}"


def test_of_strategies_that_tie_the_explanation_says_so(job, fast_links):
    answer = plan_json(job, fast_links)
    fits = [row for row in answer["candidates"] if row["fits"]]
    assert fits[1]["step_seconds"] == pytest.approx(fits[0]["step_seconds"], rel=4e-4)
    text = ferry("plan", str(job), fast_links, "--explain").stdout
    assert f"{fits[0]['strategy']} wins: as fast as {fits[1]['strategy']}" in text
    assert "1.00x" not in text


def test_no_line_is_wider_than_a_hundred_columns_or_ends_in_blanks(job, fast_links, tmp_path):
    for changes in (fast_links, f"machine={tmp_path / 'drives.yaml'}"):
        text = ferry("plan", str(job), changes, "--explain", "--passes", "--what-if", "-o", str(tmp_path / "p")).stdout
        assert [line for line in text.splitlines() if len(line) > WIDEST or line.endswith(" ")] == []


def test_outputs_that_are_named_go_where_links_lead(job, tmp_path):
    def link(name: str) -> str:
        (tmp_path / name).symlink_to(f"{name}.there")
        return str(tmp_path / name)

    ferry("plan", str(job), "-o", link("plan"))
    ferry("simulate", str(tmp_path / "plan"), "-o", link("trace"), "--html", link("page"))
    for name in ("plan", "trace", "page"):
        assert (tmp_path / name).is_symlink() and (tmp_path / f"{name}.there").stat().st_size > 0


def test_an_output_that_is_a_directory_is_refused(job, tmp_path):
    assert ferry("plan", str(job), "-o", str(tmp_path), expect=2).stderr.endswith(
        f"{tmp_path}: is a directory; expected a file to write\n"
    )
