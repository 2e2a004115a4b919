"""What a run says of itself before, after and instead of its steps."""

import ctypes
import json
import re
import statistics
import subprocess
from pathlib import Path

import pytest
import torch
from conftest import FERRY, Started, ferry, machine, make_model, states_bytes


def everything(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_verifying_a_capped_plan_finds_every_bit_equal_and_leaves_nothing(box, precision):
    capped = {"strategy": "mobius", "budget__device": f"{states_bytes(box.model) // 8} B"}
    name = f"verified-{precision}"
    job, out = box.write_job(name, train__precision=precision, **capped)
    before, beside = everything(out), set(box.folder.iterdir())
    done = ferry("verify", str(job), "--steps", "2")
    assert "strategy mobius" in done.stdout and "strategy resident" in done.stdout
    losses = re.findall(r"^ +(\d) +(\S+) +(\S+) +(\S+) +(\S+)$", done.stdout, re.MULTILINE)
    assert [step for step, *_ in losses] == ["1", "2"]
    assert all(loss == again and norm == same for _, loss, again, norm, same in losses)
    assert losses[0][1] != losses[1][1]
    assert "losses 0, norms 0" in done.stdout
    assert "equal bit for bit" in done.stdout
    assert everything(out) == before
    assert set(box.folder.iterdir()) == beside


def test_a_job_that_no_device_holds_is_verified_against_the_plan_for_all_memory(box, tmp_path):
    model = make_model(tmp_path / "base", num_hidden_layers=4)
    small = json.loads(machine(box.folder, 1).read_text())
    small["devices"][0]["memory"] = "1.5 MiB"
    assert states_bytes(model) > 1.5 * 2**20
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(small))
    capped = {"machine": str(file), "strategy": "auto", "budget__device": "1 MiB", "train__micro_batch_size": 1}
    job, _ = box.write_job("verified-small", model=str(model), **capped, plan__profile="estimate")
    done = ferry("verify", str(job), "--steps", "1")
    assert "the job does not fit a device as a whole; it is held against the plan for all memory" in done.stderr
    budgets = re.findall(r"^budget +([\d.]+ \w+)", done.stdout, re.MULTILINE)
    assert budgets == ["1.0 MiB", "1.5 MiB"]
    assert "strategy resident" not in done.stdout
    assert "equal bit for bit" in done.stdout


def test_numbers_that_differ_are_told_and_end_with_1(box, tmp_path):
    """The model is another one when the second of the two runs loads it."""
    from safetensors.torch import load_file, save_file

    model, other = make_model(tmp_path / "base", num_hidden_layers=1), tmp_path / "other.safetensors"
    weights = load_file(model / "model.safetensors")
    weights["lm_head.weight"][3, 5] += 1
    save_file(weights, other, {"format": "pt"})
    job, out = box.write_job("verified-other", model=str(model), plan__profile="estimate")
    process = subprocess.Popen([FERRY, "verify", job, "--steps", "30"], stdout=subprocess.PIPE, text=True)
    first = Started(process, out)
    first.wait_until(lambda: any(log.read_text() for log in out.parent.glob(f"{out.name}.verify-*/planned/log.jsonl")))
    other.replace(model / "model.safetensors")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert re.search(r"weights and optimizer state: \d+ of \d+ tensors differ, by at most [\d.]+\n  lm_head.weight ", said)
    assert "the plan computes something else: no bit may differ on the CPU\n" in said


def test_a_dry_run_loads_everything_and_writes_nothing(box):
    changes = {"train__save_every": 4, "train__keep": 3}
    job, out = box.write_job("dry", **changes)
    before = everything(out)
    done = ferry("train", str(job), "--dry-run")
    assert "dry run: all is there; without --dry-run step 1 of 10 is next" in done.stdout
    assert "loading" in done.stderr
    assert everything(out) == before
    assert not (out / "checkpoints").exists()
    run = box.train("dry", **changes)
    before = everything(out)
    assert "step 5 of 10 is next" in ferry("train", str(job), "--resume", "4", "--dry-run").stdout
    assert everything(out) == before
    assert f"{run.checkpoint.name} was saved by an earlier run" in ferry("train", str(job), "--dry-run", expect=2).stderr


def test_a_run_tells_what_it_trains_and_what_it_ran_on(box):
    run = box.train("told", train__steps=4)
    assert re.search(r"^model .* parameters, fp32, 1 thread per kernel$", run.text, re.MULTILINE)
    assert re.search(r"^data +37 rows of 32 positions: [\d,]+ tokens, \d+% of them learned", run.text, re.MULTILINE)
    assert re.search(r"^steps +4 of 6 rows, about \d+ tokens each: 0.649 epochs, .* as predicted$", run.text, re.MULTILINE)
    assert re.search(r"^checkpoint .* MiB each, 2 kept: ", run.text, re.MULTILINE)
    size = float(re.search(r"^checkpoint +([\d.]+) MiB", run.text, re.MULTILINE)[1]) * 2**20
    stored = sum(file.stat().st_size for file in run.checkpoint.rglob("*.safetensors"))
    assert abs(size - stored) < 0.03 * stored
    facts = json.loads((run.out / "environment.json").read_text())
    assert facts["torch"] == torch.__version__.split("+")[0]
    assert facts["cpu_capability"] == torch.backends.cpu.get_cpu_capability()
    assert facts["cores"] >= 1 and facts["memory_bytes"] > 2**20 and facts["gpus"] == []
    assert {"ferry", "compiler", "cpu"} <= set(facts)
    xxh64, job = ctypes.CDLL("libxxhash.so.0").XXH64, (run.out / "job.yaml").read_bytes()
    xxh64.argtypes, xxh64.restype = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64), ctypes.c_uint64
    assert facts["job_xxh64"] == f"{xxh64(job, len(job), 0):016x}"


def test_tokens_per_second_are_one_thing_in_line_log_and_summary(box):
    run = box.train("rates", train__steps=4)
    steps = [line for line in run.log if "loss" in line]
    rates = [line["tokens"] / line["step_seconds"] for line in steps]
    assert [line["tokens_per_second"] for line in steps] == pytest.approx(rates)
    shown = [int(rate) for rate in re.findall(r"(\d+) tok/s  left", run.text)]
    assert shown == pytest.approx(rates, abs=0.51)
    summary = run.summary
    assert summary["tokens"] == sum(line["tokens"] for line in steps)
    assert summary["tokens_per_second"] == pytest.approx(statistics.median(rates[2:]))
    assert summary["stepping_seconds"] == pytest.approx(sum(line["step_seconds"] for line in steps))
    assert summary["seconds"] >= summary["stepping_seconds"]
    assert f"median {summary['tokens_per_second']:.0f} tok/s" in run.text
