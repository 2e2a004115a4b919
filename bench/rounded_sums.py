"""What `train.gradients: bf16` does to the loss: the demo's job with fp32 and with rounded sums.

Both are run with several seeds, which choose the rows of a step, so that the difference stands
beside what another order of the data does. Prints the mean training loss of every part of the run,
and of all seeds the largest differences of these means: between the two settings, and between seeds.

    .venv/bin/python bench/rounded_sums.py [--steps 200] [--parts 8] [--seeds 3] [--precision fp32]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
SETTINGS = ("fp32", "bf16")


def run(*command: str | Path) -> None:
    tools = {"PYTHONPATH": str(ROOT / "tools")}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | tools, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def losses(folder: Path, gradients: str, seed: int, asked: argparse.Namespace) -> list[float]:
    """Of every step."""
    out = folder / f"{gradients}-{seed}"
    changes = {
        "model": folder / "base",
        "data.train": folder / "data.jsonl",
        "out": out,
        "train.steps": asked.steps,
        "train.seed": seed,
        "train.precision": asked.precision,
        "train.gradients": gradients,
        "train.log_every": 1,
        "train.save_minutes": 0,
    }
    run(FERRY, "train", "examples/demo.yaml", *(f"{key}={value}" for key, value in changes.items()))
    lines = map(json.loads, (out / "log.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line]


def means(values: list[float], parts: int) -> list[float]:
    return [fmean(values[i * len(values) // parts : (i + 1) * len(values) // parts]) for i in range(parts)]


def largest_difference(pairs: list[tuple[list[float], list[float]]]) -> float:
    return max(abs(a - b) for one, other in pairs for a, b in zip(one, other, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--precision", default="fp32", choices=("fp32", "bf16"))
    asked = parser.parse_args()
    seeds = range(1, asked.seeds + 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(ROOT / ".venv/bin/python", "-m", "ferry_tools", "make-data", folder / "data.jsonl")
        run(FERRY, "init", "--arch", "llama", "--preset", "nano", folder / "base")
        found = {
            setting: [means(losses(folder, setting, seed, asked), asked.parts) for seed in seeds]
            for setting in SETTINGS
        }
    columns = [f"{setting}, seed {seed}" for seed in seeds for setting in SETTINGS]
    print("| steps | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for part in range(asked.parts):
        last = (part + 1) * asked.steps // asked.parts
        row = (found[setting][at][part] for at in range(asked.seeds) for setting in SETTINGS)
        print(f"| to {last} | " + " | ".join(f"{loss:.4f}" for loss in row) + " |")
    between_settings = largest_difference(list(zip(found["fp32"], found["bf16"], strict=True)))
    between_seeds = largest_difference(list(combinations(found["fp32"], 2)))
    print(f"\nlargest difference between the settings {between_settings:.4f}, between seeds {between_seeds:.4f}")


if __name__ == "__main__":
    main()
