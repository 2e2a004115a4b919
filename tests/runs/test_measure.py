"""Measuring: once for equal blocks, within the budget, and what `train.precision: auto` makes of it."""

import json
import os
import time
from pathlib import Path

import pytest
from conftest import ferry, make_model


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("FERRY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write_job(box, name: str, **changes) -> Path:
    file = box.folder / f"{name}.yaml"
    job = box.job(name, **changes)
    file.write_text(json.dumps(job))
    return file


def products(cache: Path) -> list[Path]:
    """The files of measured matrix products."""
    return [file for file in cache.glob("measured/*.json") if "; products" in json.loads(file.read_text())["key"]]


def test_equal_blocks_of_another_model_and_folder_are_not_measured_again(box, tmp_path, own_cache):
    first = ferry("plan", str(write_job(box, "measured-first")))
    assert "measuring  5 blocks" in first.stderr
    deeper = make_model(tmp_path / "deeper", num_hidden_layers=16)
    second = ferry("plan", str(write_job(box, "measured-second", model=str(deeper))))
    assert "measuring" not in second.stderr
    profiles = [(box.folder / name / "profile.yaml").read_text() for name in ("measured-first", "measured-second")]
    first_blocks, second_blocks = (text.partition("blocks:")[2].partition("chain:")[0] for text in profiles)
    assert first_blocks == second_blocks


def test_a_kept_measurement_that_lacks_a_figure_or_is_no_file_is_made_again(box, own_cache):
    job = str(write_job(box, "measured-again"))
    ferry("plan", job)
    first, *others = sorted((own_cache / "measured").iterdir(), key=lambda file: "cores" not in file.read_text())
    for file in others:
        file.write_text(file.read_text().replace('"cores"', '"kernels"'))
    first.unlink()
    os.mkfifo(first)
    assert "measuring  5 blocks" in ferry("plan", job).stderr


def test_what_was_measured_beside_other_processes_is_said_and_kept_for_minutes(box, own_cache):
    job = str(write_job(box, "measured-busy"))
    ferry("plan", job)

    def keep(until: float) -> None:
        for file in (own_cache / "measured").iterdir():
            kept = json.loads(file.read_text())
            file.write_text(json.dumps(kept | {"others": 1.25, "until": int(until)}))

    keep(time.time() + 300)
    again = ferry("plan", job).stderr
    assert "measuring" not in again
    assert "measured while other processes took 1.2 of" in again
    assert "# measured while other processes took 1.2 of" in (box.folder / "measured-busy" / "profile.yaml").read_text()
    for until in (time.time() - 1, time.time() + 3600):  # over, or of a clock that was set back
        keep(until)
        assert "measuring  5 blocks" in ferry("plan", job).stderr


def test_every_device_that_differs_is_measured(box, own_cache, tmp_path):
    """One of two threads beside two of one: two measurements, and a profile of the slowest."""
    devices = [{"kind": "sim", "memory": "1 GiB", "threads": threads} for threads in (1, 2, 1)]
    file = tmp_path / "unequal.yaml"
    file.write_text(json.dumps({"name": "unequal", "host": {"cores": 2, "memory": "4 GiB"}, "devices": devices}))
    job = write_job(box, "unequal", machine=str(file), strategy="1f1b")
    assert ferry("plan", str(job)).stderr.count("measuring  5 blocks in ") == 2
    profile = (box.folder / "unequal" / "profile.yaml").read_text()
    assert "1 threads" in profile and "2 threads" in profile
    assert "measuring" not in ferry("plan", str(job)).stderr


def test_a_block_that_the_budget_has_no_room_for_is_estimated_with_a_word(box, own_cache):
    job = write_job(box, "no-room", budget={"host": "1 KiB", "device": "1 KiB"})
    done = ferry("plan", str(job), expect=4)
    assert "estimated, since it needs" in done.stderr


def test_auto_is_said_and_a_resumed_run_keeps_its_checkpoints_precision(box, own_cache):
    job = write_job(box, "auto", train__precision="auto", train__steps=1, plan__profile="estimate")
    said = ferry("plan", str(job)).stderr
    chosen, other = ("bf16", "fp32") if "precision: bf16 (auto)" in said else ("fp32", "bf16")
    assert f"precision: {chosen} (auto), since products in bf16" in said
    ferry("train", str(job), f"train.precision={other}")
    assert f"precision: {other}\n" in (box.folder / "auto" / "job.yaml").read_text()
    resumed = ferry("train", str(job), "--resume", "train.steps=2")
    assert "(auto)" not in resumed.stderr
    assert f"precision: {other}\n" in (box.folder / "auto" / "job.yaml").read_text()


def test_kernels_that_emulate_bf16_are_not_measured(box, own_cache, monkeypatch):
    job = write_job(box, "instructions", train__precision="auto", plan__profile="estimate")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    said = ferry("plan", str(job)).stderr
    assert "precision: fp32 (auto), since products in bf16 are emulated by this CPU's kernels (DEFAULT)" in said
    assert not products(own_cache)
