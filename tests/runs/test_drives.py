"""Jobs whose states do not fit in DRAM are told what a drive would do, and planned with one."""

import json
import subprocess

import pytest
from conftest import FERRY, Box, ferry

STREAMS = {"strategy": "fuyou", "budget__device": "1 MiB", "train__steps": 1000}
DRIVE = {"capacity": "64 MiB", "read": "1 GB/s", "write": "500 MB/s"}


def answer(box: Box, name: str, *overrides: str, expect: int = 0, **changes) -> tuple[dict, str]:
    file, _ = box.write_job(name, **STREAMS | changes)
    done = subprocess.run([FERRY, "plan", file, *overrides, "--json"], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.fixture(scope="module")
def little_dram(box: Box) -> str:
    """Room for weights and states, not for sums beside them."""
    plan, _ = answer(box, "roomy")
    host = plan["places"]["host"]
    return f"{host['weights'] + host['optimizer state']} B"


def test_a_drive_is_offered_with_what_it_takes_and_the_step_and_keeps_its_word(box, little_dram):
    refused, _ = answer(box, "offered", expect=4, budget__host=little_dram)
    offers = [one for one in refused["remedies"] if one["change"].startswith("budget.drive: ")]
    assert len(offers) == 1
    key, value = offers[0]["change"].split(": ", 1)
    plan, _ = answer(box, "taken", f"{key}={value}", budget__host=little_dram)
    assert plan["step_seconds"] == offers[0]["step_seconds"]
    assert 0 < plan["places"]["ssd0"]["peak"] <= plan["places"]["ssd0"]["budget"]


def test_a_plan_says_what_rests_on_the_drive_and_what_moves(box, little_dram):
    drive = DRIVE | {"endurance": "1 GB"}
    changes = STREAMS | {"budget__host": little_dram, "budget__drive": drive}
    plan, said = answer(box, "written", **changes)
    use = plan["drives"]["ssd0"]
    assert use["read_bytes"] > 0 and use["written_bytes"] > 0
    assert use["life_steps"] == 10**9 // use["written_bytes"]
    assert use["life_positions"] == use["life_steps"] * 3 * 2 * 32
    file, _ = box.write_job("shown", **changes)
    shown = ferry("plan", str(file), "--explain")
    assert "ssd0: " in shown.stdout and "written per step; rated for" in shown.stdout
    assert "on the drives rest, of " in shown.stdout
    assert "warning: 1000 steps write " in shown.stderr


def test_a_drive_without_endurance_has_no_known_life(box, little_dram):
    plan, said = answer(box, "unknown", budget__host=little_dram, budget__drive=DRIVE)
    assert plan["drives"]["ssd0"]["life_steps"] is None
    assert "warning" not in said


def test_a_drive_that_is_not_here_needs_its_rates(box):
    _, said = answer(box, "nowhere", expect=2, budget__drive={"path": "/nowhere/at/all", "capacity": "1 GB"})
    assert "budget.drive: no folder '/nowhere/at/all' here, and its rates are not known" in said


def test_a_drive_that_is_too_small_is_named(box, little_dram):
    small = DRIVE | {"capacity": "8 KiB"}
    refused, _ = answer(box, "small", expect=4, budget__host=little_dram, budget__drive=small)
    assert refused["place"] == "ssd0"
    assert refused["limit"].startswith("budget.drive, ")
