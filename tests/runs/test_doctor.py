"""The doctor's machine file is one that ferry plans with, and looking at a box leaves nothing on it."""

import json
import re

import pytest
from conftest import ferry


@pytest.fixture(scope="module")
def drive(box):
    folder = box.folder / "drive"
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def examined(box, drive):
    """The machine file that was written, and what was said as JSON."""
    file = box.folder / "box.yaml"
    file.symlink_to("written.yaml")
    done = ferry("doctor", "--machine", str(file), "--drive", str(drive), "--drive-size", "8 MiB", "--json")
    return file, json.loads(done.stdout)


def test_every_measured_figure_says_so_in_the_file(examined, drive):
    text = examined[0].read_text()
    assert "name: box\n" in text
    assert re.search(r"# measured: .*\n  memory_bandwidth: [0-9.]+ [GM]i?B/s\n", text), text
    assert re.search(r"# measured: .*\n  update_rate: [0-9.]+ [GM] parameters/s\n", text), text
    assert f"path: {drive}\n" in text
    assert not re.search(r"20\d\d-\d\d", text), "no date"
    assert list(drive.iterdir()) == []


def test_the_file_is_written_where_a_link_leads(examined):
    assert examined[0].is_symlink()


def test_the_file_plans_a_job(box, examined):
    job = box.folder / "doctored.yaml"
    job.write_text(json.dumps(box.job("doctored", machine=str(examined[0]), plan__profile="estimate")))
    assert "step" in ferry("plan", str(job)).stdout


def test_the_file_promises_no_memory_twice(box, examined):
    job = box.folder / "whole.yaml"
    job.write_text(json.dumps(box.job("whole", machine=str(examined[0]), plan__profile="estimate", budget={})))
    places = json.loads(ferry("plan", str(job), "--json").stdout)["places"]
    memory = examined[1]["machine"]["host"]["memory"]
    assert memory / 2 < places["gpu0"]["budget"] + places["host"]["budget"] < memory


def test_json_tells_every_figure_and_its_source(examined, drive):
    answer = examined[1]
    host = answer["machine"]["host"]
    assert host["cores"] >= 1
    assert host["memory"] > 0
    assert host["memory_bandwidth"] > 0
    assert host["update_rate"] > 0
    assert [d["path"] for d in answer["machine"]["drives"]] == [str(drive)]
    sources = {(f["part"], f["key"]): f["source"] for f in answer["findings"]}
    assert sources["host", "update_rate"].startswith("measured: ")
    assert "the box has" in sources["host", "cores"]


def test_without_a_file_it_only_prints(box):
    before = sorted(box.folder.iterdir())
    done = ferry("doctor")
    assert sorted(box.folder.iterdir()) == before
    assert "nothing written" in done.stdout
    assert done.stdout.startswith("host")
    assert max(len(line) for line in done.stdout.splitlines()) <= 100


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--drive", "/nowhere/at/all"), 2, "expected a folder"),
        (("--drive", "{drive}", "--drive-size", "0 B"), 2, "--drive-size"),
        (("--drive", "{drive}", "--drive-size", "much"), 2, "--drive-size"),
        (("--drive", "{drive}", "--drive-size", "4096 TiB"), 3, "the drive has"),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(drive, arguments, code, said):
    done = ferry("doctor", *(a.format(drive=drive) for a in arguments), expect=code)
    assert said in done.stderr
    assert list(drive.iterdir()) == []
