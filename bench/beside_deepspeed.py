"""Tokens per second of ferry beside DeepSpeed on the CPU: same model, tokens, threads, clipping; bf16 with fp32 masters on both.

    python3 -m venv ds && ds/bin/pip install torch==2.13.0 transformers==5.23.0 --extra-index-url https://download.pytorch.org/whl/cpu
    apt-get install libaio-dev && ds/bin/pip install --no-build-isolation deepspeed==0.19.8
    .venv/bin/python bench/beside_deepspeed.py --deepspeed ds/bin/python [--hidden 640 --layers 10] [--micro-batches 1] [--rounds 3]

Its own virtual environment, since DeepSpeed brings packages along that ferry does not want. The first run compiles its
operators for some minutes; they are kept. bf16, since DeepSpeed reads weights from a drive in nothing else. Four runs per round,
in turns, ferry with device memory for an eighth of the states: ZeRO-2 with the optimizer in DRAM beside ferry with all of it, and
ZeRO-Infinity with everything on the drive beside ferry with DRAM for a third of the states and the same drive. Both compute blocks
again in backward where they have to. Steps after the first two count.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MICRO_BATCH, SEQUENCE = 2, 256
WARM_UP = 2  # steps
LR, CLIP = 1e-4, 1.0


def train_by_deepspeed(asked: dict) -> None:
    """In DeepSpeed's own environment; the last line printed is a JSON object of times and losses."""
    os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(random.Random(os.getpid()).randint(20000, 40000))}
    import deepspeed
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(asked["threads"])
    deepspeed.init_distributed(dist_backend="gloo")
    model = AutoModelForCausalLM.from_pretrained(asked["model"], dtype=torch.bfloat16, attn_implementation="sdpa")
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.train()
    zero = {"stage": 2, "overlap_comm": False, "contiguous_gradients": True, "offload_optimizer": {"device": "cpu"}}
    if asked["drive"]:
        on_drive = {"device": "nvme", "nvme_path": asked["drive"]}
        largest = max(weight.numel() for weight in model.parameters())
        zero |= {
            "stage": 3,
            "sub_group_size": 10**8,
            "offload_optimizer": on_drive | {"buffer_count": 4, "fast_init": False},
            "offload_param": on_drive | {"buffer_count": 32, "buffer_size": largest, "max_in_cpu": 0},
            # Prefetching and activation checkpointing do not go together in this version.
            "stage3_prefetch_bucket_size": 0,
            "stage3_max_live_parameters": int(3e7),
            "stage3_max_reuse_distance": int(3e7),
        }
    settings = {
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "gradient_accumulation_steps": asked["micro_batches"],
        "gradient_clipping": CLIP,
        "steps_per_print": 10**9,
        "bf16": {"enabled": True},
        "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "AdamW", "params": {"lr": LR, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0}},
        "aio": {"block_size": 1 << 20, "queue_depth": 32, "single_submit": False, "overlap_events": True},
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)
    rows = torch.tensor(json.loads(Path(asked["rows"]).read_text()))
    times, losses = [], []
    at = 0
    for _ in range(asked["steps"]):
        begin, total = time.perf_counter(), 0.0
        for _ in range(asked["micro_batches"]):
            batch = rows[[(at + i) % len(rows) for i in range(MICRO_BATCH)]]
            at += MICRO_BATCH
            loss = engine(input_ids=batch, labels=batch).loss
            total += loss.item()
            engine.backward(loss)
            engine.step()
        times.append(time.perf_counter() - begin)
        losses.append(total / asked["micro_batches"])
    versions = {"deepspeed": deepspeed.__version__, "torch": torch.__version__}
    print(json.dumps({"times": times, "losses": losses, "versions": versions}))


class Beside:
    def __init__(self, folder: Path, asked: argparse.Namespace):
        import tiers  # beside this file

        self.tiers, self.folder, self.asked = tiers, folder, asked
        os.environ["FERRY_CACHE"] = str(folder / "cache")
        os.environ["PYTHONPATH"] = str(tiers.ROOT / "tools")
        made = [sys.executable, tiers.__file__, "--make", str(folder / "base"), str(asked.hidden), str(asked.layers), "bf16"]
        self.parameters = int(subprocess.run(made, check=True, capture_output=True, text=True).stdout)
        pick = random.Random(1)
        self.rows = [[pick.randrange(tiers.VOCABULARY) for _ in range(SEQUENCE)] for _ in range(64)]
        (folder / "rows.json").write_text(json.dumps(self.rows))
        tiers.write_tokens(folder / "data.tokens", self.rows)
        (folder / "drive").mkdir()

    def deepspeed(self, on_drive: bool) -> dict:
        swap = self.folder / "swap"
        shutil.rmtree(swap, ignore_errors=True)
        swap.mkdir()
        asked = {
            "model": str(self.folder / "base"),
            "rows": str(self.folder / "rows.json"),
            "drive": str(swap) if on_drive else "",
            "threads": self.asked.threads,
            "steps": self.asked.steps,
            "micro_batches": self.asked.micro_batches,
        }
        command = [self.asked.deepspeed, __file__, "--as-deepspeed", json.dumps(asked)]
        environment = os.environ | {"OMP_NUM_THREADS": str(self.asked.threads)}
        environment["PATH"] = f"{Path(self.asked.deepspeed).parent}:{environment['PATH']}"  # its ninja
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        shutil.rmtree(swap)
        if done.returncode != 0:
            sys.exit(f"DeepSpeed: exit {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return json.loads(done.stdout.splitlines()[-1])

    def ferry(self, on_drive: bool) -> dict:
        states = 12 * self.parameters
        budget = {"device": f"{states // 8} B"}
        if on_drive:
            budget |= {"host": f"{states // 3} B", "drive": {"path": str(self.folder / "drive"), "capacity": f"{2 * states} B"}}
        job = {
            "model": str(self.folder / "base"),
            "data": {"train": str(self.folder / "data.tokens"), "sequence": SEQUENCE, "shuffle": False},
            "train": {
                "steps": self.asked.steps,
                "micro_batches": self.asked.micro_batches,
                "micro_batch_size": MICRO_BATCH,
                "precision": "bf16",
            },
            "optim": {"lr": LR, "betas": [0.9, 0.999], "weight_decay": 0.0, "clip": CLIP, "schedule": "constant", "warmup_steps": 0},
            "budget": budget,
            "threads": self.asked.threads,
            "out": str(self.folder / "run"),
        }
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        (self.folder / "job.yaml").write_text(json.dumps(job))
        self.tiers.ferry("train", "job.yaml", folder=self.folder)
        log = [json.loads(line) for line in (self.folder / "run/log.jsonl").read_text().splitlines()]
        log = [line for line in log if "loss" in line]
        drives = json.loads((self.folder / "run/summary.json").read_text()).get("drives", {})
        moved = {way: sum(drive["measured"][way] / drive["steps"] for drive in drives.values()) for way in ("read", "written")}
        return {"times": [line["step_seconds"] for line in log], "losses": [line["loss"] for line in log], "drive": moved}


def main() -> None:
    if sys.argv[1:2] == ["--as-deepspeed"]:
        train_by_deepspeed(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--deepspeed", required=True, help="python of the environment that has it")
    parser.add_argument("--hidden", type=int, default=640)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--micro-batches", type=int, default=1, help="of 2 x 256 tokens per step; 1")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        beside = Beside(Path(name), asked)
        tokens = asked.micro_batches * MICRO_BATCH * SEQUENCE
        print(f"{beside.parameters / 1e6:.1f} M parameters, {tokens} tokens per step, {asked.threads} threads", flush=True)
        times: dict[str, list[float]] = {}
        for turn in range(asked.rounds):
            for tier, on_drive in (("DRAM", False), ("drive", True)):
                for who, run in (("DeepSpeed", beside.deepspeed), ("ferry", beside.ferry)):
                    outcome = run(on_drive)
                    times.setdefault(f"{who}, {tier}", []).extend(outcome["times"][WARM_UP:])
                    seconds = " ".join(f"{second:.2f}" for second in outcome["times"])
                    losses = f"{outcome['losses'][0]:.5f} to {outcome['losses'][-1]:.5f}"
                    print(f"{turn} {who}, {tier}: {seconds} s; losses {losses}; load {os.getloadavg()[0]:.1f}", end="")
                    if on_drive and "drive" in outcome:
                        print("; per step {read:.3g} B read, {written:.3g} B written".format(**outcome["drive"]), end="")
                    print("", outcome.get("versions", ""), flush=True)
        median = {name: statistics.median(seconds) for name, seconds in times.items()}
        for name, seconds in median.items():
            print(f"{name}: {tokens / seconds:.0f} tokens/s")
        for tier, peer in (("DRAM", "ZeRO-2 offload"), ("drive", "ZeRO-Infinity")):
            print(f"ferry over {peer}: {median[f'DeepSpeed, {tier}'] / median[f'ferry, {tier}']:.2f}")


if __name__ == "__main__":
    main()
