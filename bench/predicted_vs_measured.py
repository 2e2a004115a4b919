"""Measured over predicted step time of every strategy that needs no drive, on throttled devices.

Trains a small Llama-type model on 2 and 4 simulated devices with the links of
machines/cpu2-4sim-throttled.yaml. Every run measures its own profile, since the speed of a shared
machine moves. Prints one `strategy devices predicted measured ratio` line for the run with the
median ratio, and all ratios; the bar is a median within 10 % of 1.

    .venv/bin/python bench/predicted_vs_measured.py [--preset tiny] [--steps 10] [--rounds 3] [--links '20 MB/s'] [STRATEGY ...]

With --budgets N `auto` trains on 1, 2 and 4 devices with N budgets each, from the least that fits to one for everything at home. The
profile is measured once per number of devices, so that predicted steps differ in the budget alone: none may be longer than with less.
Since that is soon minutes old, every run is followed by another profile and prediction, behind which the ratio to that one stands.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
WARM_UP = 2  # steps
DOES_NOT_FIT = 4
STRATEGIES = "resident mobius harmony-dp harmony-pp roundpipe zero gpipe 1f1b interleaved mixed-pipe auto".split()


def ferry(*arguments: str, folder: Path, expected: int = 0, cache: str = ".cache") -> str:
    environment = os.environ | {"FERRY_CACHE": str(folder / cache)}
    done = subprocess.run([FERRY, *arguments], cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode != expected:
        sys.exit(f"ferry {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def machine(folder: Path, devices: int, links: str) -> Path:
    """The throttled machine with as many devices; `links`: other rates of theirs."""
    described = yaml.safe_load((ROOT / "machines/cpu2-4sim-throttled.yaml").read_text())
    groups = described["devices"] = described["devices"][:devices]
    for group in groups:
        group["count"] = devices // len(groups)
        if links:
            group["up"] = group["down"] = links
    path = folder / f"machine-{devices}.yaml"
    path.write_text(json.dumps(described))
    return path


def write_job(folder: Path, strategy: str, devices: int, asked: argparse.Namespace, budget: int = 0) -> str:
    """`budget`: bytes of each device; 0: all that the machine has."""
    job = {
        "model": "model",
        "data": {"train": "data.jsonl", "sequence": 128, "packing": True},
        "train": {"steps": asked.steps, "micro_batches": 8, "micro_batch_size": 1, "precision": "fp32"},
        "machine": str(machine(folder, devices, asked.links)),
        "strategy": strategy,
        "out": str(folder / "out"),
    }
    if budget:
        job["budget"] = {"device": f"{budget} B"}
    file = folder / "job.json"
    file.write_text(json.dumps(job))
    return str(file)


def run(folder: Path, job: str) -> tuple[float, float, float]:
    """Measured over predicted, predicted and measured seconds per step."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    ferry("train", job, folder=folder)
    summary = json.loads((out / "summary.json").read_text())
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    seconds = [line["step_seconds"] for line in log if "step_seconds" in line][WARM_UP:]
    # The mean: where steps overlap, they end in pairs.
    predicted, measured = summary["predicted_step_seconds"], sum(seconds) / len(seconds)
    return measured / predicted, predicted, measured


def measure_anew(folder: Path) -> None:
    shutil.rmtree(folder / ".cache" / "measured", ignore_errors=True)


def predict_anew(folder: Path, job: str) -> float:
    """Seconds per step by a profile of now."""
    shutil.rmtree(folder / ".now", ignore_errors=True)
    return json.loads(ferry("plan", job, "--json", folder=folder, cache=".now"))["step_seconds"]


def compare_strategies(folder: Path, asked: argparse.Namespace) -> None:
    for devices in (2, 4):
        for strategy in asked.strategies:
            job = write_job(folder, strategy, devices, asked)
            runs = []
            for _ in range(asked.rounds):
                measure_anew(folder)
                runs.append(run(folder, job))
            runs.sort()
            ratio, predicted, measured = runs[len(runs) // 2]
            ratios = " ".join(f"{each[0]:.3f}" for each in runs)
            print(f"{strategy:<12} {devices} {predicted:8.3f} s {measured:8.3f} s {ratio:6.3f}  ({ratios})", flush=True)


def least_budget(folder: Path, devices: int, asked: argparse.Namespace) -> int:
    """The least with which a plan fits, as the refusal of 64 KiB says, and its rounding."""
    said = ferry("plan", write_job(folder, "auto", devices, asked, 64 << 10), folder=folder, expected=DOES_NOT_FIT)
    needed = re.search(r"does not fit: gpu\d+ needs ([\d.]+) ([KMG])iB", said)
    if needed is None:
        sys.exit(f"expected a refusal, found\n{said}")
    return int(1.02 * float(needed[1]) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[needed[2]])


def sweep_budgets(folder: Path, asked: argparse.Namespace) -> None:
    for devices in (1, 2, 4):
        measure_anew(folder)
        least = least_budget(folder, devices, asked)
        whole = json.loads(ferry("plan", write_job(folder, "resident", 1, asked), "--json", folder=folder))
        most = max(least, whole["places"]["gpu0"]["peak"] * 5 // 4 // devices)
        before = float("inf")
        for i in range(asked.budgets):
            budget = least + (most - least) * i // max(1, asked.budgets - 1)
            job = write_job(folder, "auto", devices, asked, budget)
            ratio, predicted, measured = run(folder, job)
            now = predict_anew(folder, job)
            verdict = "SLOWER than with less" if predicted > before * (1 + 1e-9) else ""
            before = min(before, predicted)
            print(f"{devices} {budget / (1 << 20):8.1f} MiB {predicted:8.3f} s {measured:8.3f} s {ratio:6.3f}", end="  ")
            print(f"now {now:8.3f} s {measured / now:6.3f} {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budgets", type=int, default=0, help="of each number of devices; 0: compare strategies")
    parser.add_argument("--links", default="", help="of each device, each way: '20 MB/s'")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ferry("init", "model", "--preset", asked.preset, folder=folder)
        text = "The quick brown fox jumps over the lazy dog and runs on for a while. " * 40
        (folder / "data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for _ in range(64)))
        (sweep_budgets if asked.budgets else compare_strategies)(folder, asked)


if __name__ == "__main__":
    main()
