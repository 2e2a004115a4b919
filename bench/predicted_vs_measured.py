"""Measured over predicted step time of every strategy that needs no drive, on throttled devices.

Trains a small Llama-type model on 2 and 4 simulated devices with the links of
machines/cpu2-4sim-throttled.yaml. Every run measures its own profile, since the speed of a shared
machine moves. Prints one `strategy devices predicted measured ratio` line for the run with the
median ratio, and all ratios; the bar is a median within 10 % of 1.

    .venv/bin/python bench/predicted_vs_measured.py [--preset tiny] [--steps 10] [--rounds 3] [--links '20 MB/s'] [STRATEGY ...]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
WARM_UP = 2  # steps
STRATEGIES = "resident mobius harmony-dp harmony-pp roundpipe zero gpipe 1f1b interleaved mixed-pipe auto".split()


def ferry(*arguments: str, folder: Path) -> None:
    done = subprocess.run([FERRY, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"ferry {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def machine(folder: Path, devices: int, links: str) -> Path:
    """The throttled machine with as many devices; `links`: other rates of theirs."""
    described = yaml.safe_load((ROOT / "machines/cpu2-4sim-throttled.yaml").read_text())
    for group in described["devices"]:
        group["count"] = devices // len(described["devices"])
        if links:
            group["up"] = group["down"] = links
    path = folder / f"machine-{devices}.yaml"
    path.write_text(json.dumps(described))
    return path


def run(folder: Path, strategy: str, devices: int, asked: argparse.Namespace) -> tuple[float, float, float]:
    """Measured over predicted, predicted and measured seconds per step."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(folder / ".cache" / "measured", ignore_errors=True)
    job = {
        "model": "model",
        "data": {"train": "data.jsonl", "sequence": 128, "packing": True},
        "train": {"steps": asked.steps, "micro_batches": 8, "micro_batch_size": 1, "precision": "fp32"},
        "machine": str(machine(folder, devices, asked.links)),
        "strategy": strategy,
        "out": str(out),
    }
    job_file = folder / "job.json"
    job_file.write_text(json.dumps(job))
    ferry("train", str(job_file), folder=folder)
    summary = json.loads((out / "summary.json").read_text())
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    seconds = [line["step_seconds"] for line in log if "step_seconds" in line][WARM_UP:]
    # The mean: where steps overlap, they end in pairs.
    predicted, measured = summary["predicted_step_seconds"], sum(seconds) / len(seconds)
    return measured / predicted, predicted, measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--links", default="", help="of each device, each way: '20 MB/s'")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ferry("init", "model", "--preset", asked.preset, folder=folder)
        text = "The quick brown fox jumps over the lazy dog and runs on for a while. " * 40
        (folder / "data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for _ in range(64)))
        for devices in (2, 4):
            for strategy in asked.strategies:
                runs = sorted(run(folder, strategy, devices, asked) for _ in range(asked.rounds))
                ratio, predicted, measured = runs[len(runs) // 2]
                ratios = " ".join(f"{each[0]:.3f}" for each in runs)
                print(f"{strategy:<12} {devices} {predicted:8.3f} s {measured:8.3f} s {ratio:6.3f}  ({ratios})", flush=True)


if __name__ == "__main__":
    main()
