"""Runs whose values rest on drives: the weights of the run in memory, whatever is interrupted, moved or refused."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FERRY, STEPS, Box, Run, ferry, machine, same_bits

CAPPED = {"strategy": "mobius", "budget__device": "1500 KiB", "budget__host": "3 MiB"}


def drive(folder: Path, name: str, **changes) -> dict:
    """A drive that is a folder of its own."""
    path = folder / name
    path.mkdir(exist_ok=True)
    return {"name": name, "path": str(path), "capacity": "1 GiB", "read": "2 GB/s", "write": "1 GB/s"} | changes


def with_drives(box: Box, drives: list[dict], devices: int = 1) -> str:
    """A machine file of simulated devices and these drives."""
    content = json.loads(machine(box.folder, devices).read_text()) | {"drives": drives}
    file = box.folder / f"drives-{abs(hash(json.dumps(content)))}.yaml"
    file.write_text(json.dumps(content))
    return str(file)


def two_drives(box: Box) -> list[dict]:
    return [drive(box.folder, "ssd0"), drive(box.folder, "ssd1", read="1 GB/s")]


def expect_predicted_bytes(run: Run) -> None:
    """The drives have counted what the plan moves, to the byte."""
    drives = run.summary["drives"]
    assert drives
    for moved in drives.values():
        assert moved["steps"] > 0
        for way in ("read", "written"):
            assert moved["measured"][way] == moved["steps"] * moved["predicted_per_step"][way]
        assert moved["measured"]["read"] > 0


def rests_on_drives(run: Run) -> set[str]:
    """The kinds of value that the plan has on drives: W, S, G, A, K."""
    plan = (run.out / "plan").read_text()
    return set(re.findall(r"^instance ([A-Za-z]+)[.\d]*@(?:drives|ssd0)", plan, re.M))


@pytest.fixture(scope="module")
def resident(box) -> dict[int, Run]:
    return {m: box.train(f"drives-resident-{m}", train__micro_batches=m) for m in (1, 3)}


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("devices", [1, 2])
def test_what_rests_on_drives_moves_no_number(box, resident, devices, micro_batches):
    run = box.train(
        f"drives-{devices}-{micro_batches}",
        **CAPPED,
        machine=with_drives(box, two_drives(box), devices),
        train__micro_batches=micro_batches,
    )
    assert "S" in rests_on_drives(run)
    same_bits(run, resident[micro_batches])
    expect_predicted_bytes(run)
    assert re.search(r"drives: .* in \S+ssd0, \S+ssd1, by ", run.text)
    for folder in ("ssd0", "ssd1"):
        assert list((box.folder / folder).iterdir()) == []  # swap files have no names

def test_a_held_drive_gives_no_more_than_its_rates(box, resident):
    held = drive(box.folder, "held", read="40 MB/s", write="20 MB/s", held=True)
    run = box.train("drives-held", **CAPPED, machine=with_drives(box, [held]), train__micro_batches=3)
    same_bits(run, resident[3])
    expect_predicted_bytes(run)
    moved = run.summary["drives"]["held"]["measured"]
    assert run.summary["stepping_seconds"] >= moved["read"] / 40e6 + moved["written"] / 20e6


def test_without_clipping_too(box):
    whole = box.train("unclipped", optim__clip=0)
    run = box.train("drives-unclipped", **CAPPED, machine=with_drives(box, [drive(box.folder, "ssd0")]), optim__clip=0)
    same_bits(run, whole)
    expect_predicted_bytes(run)


def test_the_strategy_of_fuyou_rests_everything_there(box, resident):
    capped = CAPPED | {"strategy": "fuyou", "budget__host": "2 MiB"}
    run = box.train("drives-fuyou", **capped, machine=with_drives(box, [drive(box.folder, "ssd0")]))
    assert {"W", "S"} <= rests_on_drives(run)
    same_bits(run, resident[3])
    expect_predicted_bytes(run)


def test_a_checkpoint_goes_from_memory_to_drives_and_back(box, resident):
    """Between them also other budgets and numbers of devices."""
    placements = [
        {},
        CAPPED | {"machine": with_drives(box, two_drives(box))},
        CAPPED | {"machine": with_drives(box, [drive(box.folder, "ssd1")], 2), "budget__host": "2 MiB"},
        {"strategy": "mobius", "budget__device": "1500 KiB"},
    ]
    for part, placement in enumerate(placements):
        steps = [3, 5, 8, STEPS][part]
        run = box.train("drives-moved", *(["--resume"] if part else []), train__steps=steps, **placement)
    same_bits(run, resident[3])


def test_evaluation_reads_the_weights_where_they_rest(box):
    tokens = {"data__eval": str(box.tokens), "train__eval_every": 2}
    whole = box.train("eval-resident", **tokens)
    slow = [drive(box.folder, "slow", read="10 MB/s", write="10 MB/s")]
    for host, drives in (("3 MiB", two_drives(box)), ("2 MiB", two_drives(box)), ("3 MiB", slow)):
        run = box.train(
            f"drives-eval-{host[0]}-{len(drives)}",
            **CAPPED | {"budget__host": host},
            **tokens,
            machine=with_drives(box, drives),
        )
        if drives == slow:
            assert " norm_first" in (run.out / "plan").read_text()
        evaluated = [line["eval_loss"] for line in run.log if "eval_loss" in line]
        assert evaluated == [line["eval_loss"] for line in whole.log if "eval_loss" in line]
        assert len(evaluated) == STEPS // 2
        same_bits(run, whole)
        expect_predicted_bytes(run)  # of steps alone: evaluations read, too


def test_records_say_what_drives_moved(box):
    worn = drive(box.folder, "ssd0", endurance="30 MB")
    run = box.train("drives-records", **CAPPED, machine=with_drives(box, [worn]))
    total = sum(line["drive_bytes"]["ssd0"]["written"] for line in run.log)
    assert total == run.summary["drives"]["ssd0"]["measured"]["written"]
    for line in run.log:
        assert line["stall_by"].keys() == {"copies", "drives", "host", "devices", "other"}
        assert 0 < line["stall"] < 1
        assert sum(line["stall_by"].values()) == pytest.approx(line["stall"])
    written = run.summary["drives"]["ssd0"]["predicted_per_step"]["written"]
    assert run.summary["drive_life_steps"]["ssd0"] == 30_000_000 // written
    assert re.search(rf"{STEPS} steps write .* to ssd0: \d+% of the 28.6 MiB that they are rated for", run.text)
    assert "ssd0 written/step" in run.text
    ferry("report", str(run.out))
    assert "ssd0 written per step" in (run.out / "report.html").read_text()


def test_verify_holds_drives_against_memory(box):
    job, _ = box.write_job("drives-verify", **CAPPED, machine=with_drives(box, [drive(box.folder, "ssd0")]))
    said = ferry("verify", str(job)).stdout
    assert "same" in said or "equal" in said or "bit" in said


# ---- refused at the start ----


def test_a_drive_whose_folder_is_missing_is_refused(box):
    gone = drive(box.folder, "ssd0") | {"path": str(box.folder / "nowhere")}
    run = box.train("drives-gone", expect=2, **CAPPED, machine=with_drives(box, [gone]))
    assert f"drive ssd0: its path {box.folder}/nowhere is no folder" in run.text
    assert not run.out.exists() or not list(run.out.glob("log.jsonl"))


def test_a_drive_that_is_not_here_is_left_out(box, resident):
    absent = drive(box.folder, "absent")
    del absent["path"]
    run = box.train("drives-absent", **CAPPED, machine=with_drives(box, [absent, drive(box.folder, "ssd0")]))
    assert "drive absent is left out: the machine file gives no `path`" in run.text
    same_bits(run, resident[3])


def test_a_plan_on_drives_needs_drives(box):
    here = with_drives(box, [drive(box.folder, "ssd0")])
    run = box.train("drives-planned", train__steps=1, **CAPPED, machine=here)
    plan = str(run.out / "plan")
    said = box.train("drives-elsewhere", "--plan", plan, expect=2, **CAPPED).text
    assert "the machine has no drives to train on" in said
    again = box.train("drives-again", "--plan", plan, train__steps=1, **CAPPED, machine=here)
    assert again.losses == run.losses


# ---- killed ----


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_run_goes_on_from_its_last_checkpoint(box, resident, seed):
    """At a random moment, whatever the drives were doing."""
    name = f"drives-killed-{seed}"
    changes = CAPPED | {"machine": with_drives(box, two_drives(box)), "train__save_every": 2}
    started = box.start(name, **changes)
    pick = random.Random(seed)
    started.wait_until(lambda: any(not step.endswith(".tmp") for step in started.checkpoints))
    time.sleep(pick.random() * 0.2)
    started.process.send_signal(signal.SIGKILL)
    started.process.wait()
    started.process.communicate()
    run = box.train(name, "--resume", **changes)
    same_bits(run, resident[3])
    assert list((box.folder / "ssd0").iterdir()) == []


def test_the_example_trains_as_with_all_memory(tmp_path):
    """examples/drives.yaml, beside the same job without a limit."""
    root = Path(__file__).parents[2]
    for name in ("examples", "machines"):
        shutil.copytree(root / name, tmp_path / name)
    (tmp_path / "out/drive").mkdir(parents=True)

    def here(*command: str | Path) -> None:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    here(sys.executable, "-m", "ferry_tools", "make-data", "out/demo.jsonl")
    here(FERRY, "init", "--arch", "llama", "--preset", "nano", "out/base")
    short = ["train.steps=4", "train.micro_batches=2", "optim.warmup_steps=1"]
    unlimited = ["budget.host=4 GiB", "budget.device=null", "strategy=resident", "out=runs/whole"]
    here(FERRY, "train", "examples/drives.yaml", *short)
    here(FERRY, "train", "examples/drives.yaml", *short, *unlimited)
    capped, whole = Run(tmp_path / "runs/drives", ""), Run(tmp_path / "runs/whole", "")
    assert "S" in rests_on_drives(capped)
    assert capped.losses == whole.losses
    assert len(capped.losses) == 4
