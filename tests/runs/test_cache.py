"""Where what is slow to make is kept: FERRY_CACHE, the current folder, or the user's cache."""

import json
import os
import subprocess

import pytest
from conftest import FERRY, obey_permissions
from ferry_tools.make_model import make_model


@pytest.fixture(scope="module")
def job(box):
    file = box.folder / "cache.yaml"
    file.write_text(json.dumps(box.job("cache", plan__profile="estimate")))
    return file


def plan(job, folder, **variables: str) -> None:
    clean = {name: value for name, value in os.environ.items() if name not in ("FERRY_CACHE", "XDG_CACHE_HOME")}
    command = [FERRY, "plan", str(job)]
    done = subprocess.run(
        command, cwd=folder, env=clean | variables, capture_output=True, text=True, preexec_fn=obey_permissions
    )
    assert done.returncode == 0, done.stderr


def kept(cache) -> int:
    return len(list(cache.glob("plans/*.json")))


def test_the_folder_that_ferry_cache_names_keeps_plans(job, tmp_path):
    plan(job, tmp_path, FERRY_CACHE=str(tmp_path / "named"))
    assert kept(tmp_path / "named") == 1
    assert not (tmp_path / ".cache").exists()


def test_else_they_are_in_the_current_folder(job, tmp_path):
    plan(job, tmp_path)
    assert kept(tmp_path / ".cache") == 1


def test_of_a_folder_that_cannot_be_written_they_go_to_the_users_cache(job, tmp_path):
    readable = tmp_path / "readable"
    readable.mkdir(mode=0o555)
    plan(job, readable, XDG_CACHE_HOME=str(tmp_path / "xdg"))
    assert kept(tmp_path / "xdg" / "ferry") == 1
    plan(job, readable, HOME=str(tmp_path / "home"))
    assert kept(tmp_path / "home" / ".cache" / "ferry") == 1
    assert list(readable.iterdir()) == []


def test_a_plan_is_found_again_whatever_memory_is_free_beyond_the_budget(job, tmp_path):
    """Without a machine file the box is looked at anew each time."""
    for free in ("3 GiB", "4 GiB"):
        file = tmp_path / f"{free[0]}.yaml"
        file.write_text(f"name: box\nhost: {{cores: 2, memory: {free}}}\ndevices:\n  - {{kind: sim, memory: 1 GiB}}\n")
        asked = json.loads(job.read_text()) | {"machine": str(file), "budget": {"host": "1 GiB"}}
        (tmp_path / "job.yaml").write_text(json.dumps(asked))
        plan(tmp_path / "job.yaml", tmp_path, FERRY_CACHE=str(tmp_path / "found"))
    assert kept(tmp_path / "found") == 1


def test_a_kept_plan_that_is_damaged_or_no_file_is_made_again(job, tmp_path):
    plan(job, tmp_path, FERRY_CACHE=str(tmp_path / "odd"))
    (file,) = tmp_path.glob("odd/plans/*.json")
    kept = json.loads(file.read_text())
    for place, value in ((0, 1_000_000), (2, -1), (3, 2_000_000_000)):
        stage = kept["report"]["stages"][0].copy()
        stage[place] = value
        file.write_text(json.dumps(kept | {"report": kept["report"] | {"stages": [stage]}}))
        plan(job, tmp_path, FERRY_CACHE=str(tmp_path / "odd"))
        assert json.loads(file.read_text()) == kept, "the plan was made again"
    file.unlink()
    os.mkfifo(file)
    plan(job, tmp_path, FERRY_CACHE=str(tmp_path / "odd"))
    assert json.loads(file.read_text()) == kept


def test_token_files_go_there_too(tmp_path):
    readable = tmp_path / "readable"
    readable.mkdir(mode=0o555)
    model, rows = tmp_path / "model", tmp_path / "rows.jsonl"
    make_model(model, "llama", "nano", 1, "fp32", None)
    rows.write_text(json.dumps({"question": "1 + 1?", "answer": "2"}) + "\n")
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps({"model": str(model), "data": {"train": str(rows)}}))
    done = subprocess.run(
        [FERRY, "data", "preview", str(job)],
        cwd=readable, env=os.environ | {"FERRY_CACHE": str(tmp_path / "named")},
        capture_output=True, text=True, preexec_fn=obey_permissions,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("named/tokens/*.tokens"))) == 1
