"""Tokens per second of ferry under device budgets of 1/8 and 1/2 of the states, against PyTorch and ferry in memory.

All train the same Llama-type model on the same token file with the same threads, recompute and
numerics (bf16: bf16 weights with an fp32 master; fp32: fp32 throughout), in turns, so that a machine
whose speed drifts slows all. Prints `name value unit` lines; the ratios are the figures to quote.

    .venv/bin/python bench/capped_vs_pytorch.py [--preset tiny] [--precision bf16] [--rounds 3]
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
SEQUENCE, MICRO_BATCHES, MICRO_BATCH_SIZE = 256, 4, 2
WARM_UP = 2
OURS = {  # of the states' bytes that the device may hold, all where there is no share
    "capped": {"strategy": "mobius", "share": 1 / 8},
    "half": {"strategy": "auto", "share": 1 / 2},
    "resident": {"strategy": "resident"},
}


def run_pytorch(model_folder: Path, tokens: Path, given: argparse.Namespace) -> list[float]:
    """Seconds per step of a plain loop: gradient checkpointing per layer, fused AdamW, exact clipping."""
    precision, batches_per_step, rows, sequence = given.precision, given.micro_batches, given.micro_batch_size, given.sequence
    import torch
    from ferry_tools import token_file
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(given.threads)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=dtype, attn_implementation="sdpa")
    model.to(given.device)
    model.config.use_cache = False
    model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    weights = list(model.parameters())
    masters = [w.detach().float() for w in weights] if precision == "bf16" else weights
    optimizer = torch.optim.AdamW(masters, lr=1e-4, weight_decay=0.0, fused=True)
    samples = token_file.read(tokens).samples
    times = []
    for step in range(given.steps):
        begin = time.perf_counter()
        batches = []
        for m in range(batches_per_step):
            ids = torch.zeros(rows, sequence, dtype=torch.long)
            labels = torch.full_like(ids, -100)
            for j in range(rows):
                sample = samples[((step * batches_per_step + m) * rows + j) % len(samples)]
                kept = min(len(sample.ids), sequence)
                ids[j, :kept] = torch.tensor(sample.ids[:kept])
                labels[j, : kept - 1] = ids[j, 1:kept]
            batches.append((ids.to(given.device), labels.to(given.device)))
        learned = sum(int((labels >= 0).sum()) for _, labels in batches)
        for ids, labels in batches:
            logits = model(ids).logits.float().flatten(0, 1)
            loss = torch.nn.functional.cross_entropy(
                logits, labels.flatten(), ignore_index=-100, reduction="sum"
            )
            (loss / learned).backward()
        if precision == "bf16":
            for master, weight in zip(masters, weights, strict=True):
                master.grad = weight.grad.float()
                weight.grad = None
        torch.nn.utils.clip_grad_norm_(masters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if precision == "bf16":
            with torch.no_grad():
                for master, weight in zip(masters, weights, strict=True):
                    weight.copy_(master)
        if given.device != "cpu":
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - begin)
    return times


def in_own_process(arguments: list[str]) -> list[float]:
    command = [sys.executable, __file__, "--as-pytorch", *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def train(folder: Path, job: dict) -> tuple[list[float], dict]:
    """Seconds per step of a run of ferry's, and its summary."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    (folder / "job.yaml").write_text(json.dumps(job))
    subprocess.run([FERRY, "train", folder / "job.yaml"], check=True, capture_output=True)
    log = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "run/summary.json").read_text())
    return [line["step_seconds"] for line in log], summary


def write_tokens(file: Path, vocabulary: int, rows: int) -> None:
    import random

    from ferry_tools import token_file
    from ferry_tools.samples import Sample

    pick = random.Random(1)
    samples = [
        Sample([pick.randrange(vocabulary) for _ in range(SEQUENCE)], b"\1" * SEQUENCE) for _ in range(rows)
    ]
    token_file.write(file, vocabulary, vocabulary - 1, b"\2" * 32, samples)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--precision", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    # How scripts/gpu/run asks for PyTorch's side alone, of sizes of its own.
    parser.add_argument("--as-pytorch", nargs=2, metavar=("MODEL", "TOKENS"), help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cpu", help=argparse.SUPPRESS)
    parser.add_argument("--sequence", type=int, default=SEQUENCE, help=argparse.SUPPRESS)
    parser.add_argument("--micro-batches", type=int, default=MICRO_BATCHES, help=argparse.SUPPRESS)
    parser.add_argument("--micro-batch-size", type=int, default=MICRO_BATCH_SIZE, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_pytorch:
        model, tokens = map(Path, given.as_pytorch)
        print(json.dumps(run_pytorch(model, tokens, given)))
        return

    sys.path.insert(0, str(ROOT / "tools"))
    os.environ["PYTHONPATH"] = str(ROOT / "tools")
    from ferry_tools.make_model import make_model
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        dtype = given.precision
        make_model(folder / "base", "llama", given.preset, 1, dtype, None)
        with safe_open(folder / "base/model.safetensors", "pt") as file:
            parameters = sum(file.get_tensor(name).numel() for name in file.keys())
        vocabulary = json.loads((folder / "base/config.json").read_text())["vocab_size"]
        write_tokens(folder / "data.tokens", vocabulary, 256)
        states = 12 * parameters
        job = {
            "model": str(folder / "base"),
            "data": {"train": str(folder / "data.tokens"), "sequence": SEQUENCE, "shuffle": False},
            "train": {
                "steps": given.steps,
                "micro_batches": MICRO_BATCHES,
                "micro_batch_size": MICRO_BATCH_SIZE,
                "precision": given.precision,
            },
            "optim": {"lr": 1e-4, "clip": 1.0, "schedule": "constant", "warmup_steps": 0},
            "threads": given.threads,
            "out": str(folder / "run"),
        }
        times = {name: [] for name in ("pytorch", *OURS)}
        summaries = {}
        for _ in range(given.rounds):
            for name, row in OURS.items():
                budget = {"device": f"{int(row['share'] * states)} B"} if "share" in row else {}
                seconds, summaries[name] = train(folder, job | {"strategy": row["strategy"], "budget": budget})
                times[name] += seconds[WARM_UP:]
            arguments = [str(folder / "base"), str(folder / "data.tokens")]
            options = ["--precision", given.precision, "--steps", str(given.steps)]
            times["pytorch"] += in_own_process([*arguments, *options, "--threads", str(given.threads)])[WARM_UP:]
        tokens = SEQUENCE * MICRO_BATCHES * MICRO_BATCH_SIZE
        steps = {name: statistics.median(each) for name, each in times.items()}
        print(f"parameters {parameters} 1")
        for name, step in steps.items():
            print(f"{name} {tokens / step:.0f} tokens/s")
        print(f"capped_over_pytorch {steps['pytorch'] / steps['capped']:.3f} ratio")
        print(f"half_over_resident {steps['resident'] / steps['half']:.3f} ratio")
        for name, summary in summaries.items():
            print(f"{name}_measured_over_predicted_step {steps[name] / summary['predicted_step_seconds']:.3f} ratio")
            for place, peak in summary["measured_peak_bytes"].items():
                ratio = peak / summary["predicted_peak_bytes"][place]
                print(f"{name}_measured_over_predicted_peak_{place} {ratio:.3f} ratio")


if __name__ == "__main__":
    main()
