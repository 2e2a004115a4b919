"""Measured over predicted step time of every strategy that needs no drive, on throttled devices.

Trains a small Llama-type model on 2 and 4 simulated devices with the links of
machines/cpu2-4sim-throttled.yaml. Every strategy gets a device budget that it fits. Prints one
`strategy devices predicted measured ratio` line each; the bar is a ratio within 10 % of 1.

    .venv/bin/python bench/predicted_vs_measured.py [--preset tiny] [--steps 10] [--links '20 MB/s'] [STRATEGY ...]
"""

import argparse
import json
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("strategies", nargs="*", default=STRATEGIES)
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--links", default="", help="of each device, each way: '20 MB/s'")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ferry("init", "model", "--preset", asked.preset, folder=folder)
        text = "The quick brown fox jumps over the lazy dog and runs on for a while. " * 40
        (folder / "data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for _ in range(64)))
        profile = None
        for devices in (2, 4):
            for strategy in asked.strategies:
                out = folder / f"{strategy}-{devices}"
                job = {
                    "model": "model",
                    "data": {"train": "data.jsonl", "sequence": 128, "packing": True},
                    "train": {"steps": asked.steps, "micro_batches": 8, "micro_batch_size": 1, "precision": "fp32"},
                    "machine": str(machine(folder, devices, asked.links)),
                    "strategy": strategy,
                    "out": str(out),
                }
                if profile is not None:  # one measurement serves all
                    out.mkdir()
                    (out / "profile.yaml").write_text(profile)
                job_file = folder / f"{strategy}-{devices}.json"
                job_file.write_text(json.dumps(job))
                ferry("train", str(job_file), folder=folder)
                profile = (out / "profile.yaml").read_text()
                summary = json.loads((out / "summary.json").read_text())
                log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
                seconds = [line["step_seconds"] for line in log if "step_seconds" in line][WARM_UP:]
                # The mean: where steps overlap, they end in pairs.
                predicted, measured = summary["predicted_step_seconds"], sum(seconds) / len(seconds)
                print(f"{strategy:<12} {devices} {predicted:8.3f} s {measured:8.3f} s {measured / predicted:6.3f}", flush=True)


if __name__ == "__main__":
    main()
