"""Training from a drive beside its prediction and its lower bound: one table per question.

    .venv/bin/python bench/tiers.py ablation    what hides the drive: serial, naive, delayed write-back, activations, DRAM
    .venv/bin/python bench/tiers.py placements  bytes and step, measured over predicted, from all in DRAM to all on the drive
    .venv/bin/python bench/tiers.py capped      in a control group with a third of the states: losses and the peak of memory

The model is a Llama with random weights (--hidden, --layers), the tokens are random; the drive is a folder (--drive), whose
rates are measured anew for every run, as the blocks' times are. A row is the median of --rounds runs, all rows in turns,
since a shared machine's speed moves; what each run took is on stderr. `step` is half the median over a run's pairs of
neighbouring steps, after the first two: where steps overlap they end in pairs, and blocks' times are medians too. `bound`
is that of any plan of the row's strategy, `busiest` of any order of this plan's tasks. `capped` wants root.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FERRY = ROOT / "build/release/ferry"
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]
VOCABULARY = 8192
WARM_UP = 2  # steps
GIB = 1 << 30

ON_DRIVE = {"plan": {"activations": "recompute"}}
ABLATION = {  # of docs/planner.md's strategies; each but the last two has the least DRAM that it can run in
    "serial: updates after backward": {"strategy": "fuyou-serial", **ON_DRIVE},
    "naive: updates as sums land, one slot": {"strategy": "fuyou-naive", **ON_DRIVE},
    "writes behind, updates into the next forward": {"strategy": "fuyou", **ON_DRIVE},
    "and activations on the drive": {"strategy": "fuyou", "plan": {"activations": "swap-to-drive"}},
    "and DRAM for half of the states": {"strategy": "auto", "share": 0.5},
}
PLACEMENTS = {  # of the states' bytes that DRAM may hold, beside what staging takes
    "all in DRAM": {"strategy": "auto", "share": 2.0},
    "3/4": {"strategy": "auto", "share": 0.75},
    "1/2": {"strategy": "auto", "share": 0.5},
    "1/3": {"strategy": "auto", "share": 1 / 3},
    "1/4": {"strategy": "auto", "share": 0.25},
    "the least DRAM": {"strategy": "fuyou"},
    "the least DRAM, recompute": {"strategy": "fuyou", **ON_DRIVE},
}


@dataclass(frozen=True)
class Outcome:
    """Of one run; seconds per step, bytes per step."""

    step: float
    predicted: float
    bound: float  # of any plan of the strategy that was asked for
    busiest: float  # what the plan's own tasks take of what they take most of, in the end the drive
    bytes_exact: bool
    read: float
    written: float
    losses: tuple[float, ...]


def ferry(*arguments: object, folder: Path, enter=None) -> str:
    command = [str(argument) for argument in (FERRY, *arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=enter)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def make_model(folder: Path, hidden: int, layers: int, precision: str) -> int:
    """A Llama in `folder`, with weights of the precision; returns its number of parameters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=hidden,
            intermediate_size=hidden * 11 // 4 // 32 * 32,
            num_hidden_layers=layers,
            num_attention_heads=hidden // 64,
            num_key_value_heads=hidden // 64,
            vocab_size=VOCABULARY,
            max_position_embeddings=1024,
            tie_word_embeddings=False,
        )
    )
    model.to(torch.bfloat16 if precision == "bf16" else torch.float32).save_pretrained(folder)
    return sum(weight.numel() for weight in model.parameters())


def write_tokens(file: Path, rows: list[list[int]]) -> None:
    """A token file of which everything is learned."""
    from ferry_tools import token_file
    from ferry_tools.samples import Sample

    samples = [Sample(row, b"\1" * len(row)) for row in rows]
    token_file.write(file, VOCABULARY, VOCABULARY - 1, b"\2" * 32, samples)


class Bench:
    def __init__(self, folder: Path, asked: argparse.Namespace):
        self.folder, self.asked = folder, asked
        os.environ["FERRY_CACHE"] = str(folder / "cache")
        os.environ["PYTHONPATH"] = str(ROOT / "tools")
        sizes = (str(folder / "base"), str(asked.hidden), str(asked.layers), "fp32")
        made = subprocess.run([sys.executable, __file__, "--make", *sizes], check=True, capture_output=True, text=True)
        self.parameters = int(made.stdout)
        self.states = 12 * self.parameters
        pick = random.Random(1)
        rows = [[pick.randrange(VOCABULARY) for _ in range(asked.tokens)] for _ in range(64)]
        write_tokens(folder / "data.tokens", rows)
        print(f"{self.parameters / 1e6:.1f} M parameters, {self.states / GIB:.2f} GiB of states,", end=" ")
        print(f"{asked.micro_batches} x {asked.tokens} tokens per step, {os.cpu_count()} threads", flush=True)

    def job(self, row: dict, host: int | None = None) -> dict:
        asked = self.asked
        budget = {"drive": {"path": str(asked.drive), "capacity": f"{2 * self.states + 2 * GIB} B"}}
        if asked.held:
            budget["drive"] |= {"read": f"{asked.held} MB/s", "write": f"{asked.held} MB/s", "held": True}
        if asked.device:
            budget["device"] = asked.device
        if host:
            budget["host"] = f"{host} B"
        return {
            "model": str(self.folder / "base"),
            "data": {"train": str(self.folder / "data.tokens"), "sequence": asked.tokens, "shuffle": False},
            "train": {
                "steps": asked.steps,
                "micro_batches": asked.micro_batches,
                "micro_batch_size": 1,
                "precision": asked.precision,
            },
            "optim": {"lr": 1e-4, "clip": asked.clip or None, "schedule": "constant", "warmup_steps": 0},
            "budget": budget,
            "strategy": row["strategy"],
            "plan": row.get("plan", {}),
            "out": str(self.folder / "run"),
        }

    def write(self, job: dict) -> Path:
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        file = self.folder / "job.yaml"
        file.write_text(json.dumps(job))
        return file

    def least_host(self, row: dict) -> int:
        """The least `budget.host` with which the row's strategy fits, as its refusal says, and the refusal's rounding."""
        file = self.write(self.job(row, 1 << 20))
        said = subprocess.run([FERRY, "plan", file], cwd=self.folder, capture_output=True, text=True)
        needed = re.search(r"does not fit: host needs ([\d.]+) ([KMG])iB", said.stdout + said.stderr)
        if needed is None:
            sys.exit(f"{row}: expected a refusal, found\n{said.stdout}{said.stderr}")
        return int(1.05 * float(needed[1]) * {"K": 1 << 10, "M": 1 << 20, "G": GIB}[needed[2]])

    def host_of(self, row: dict) -> int:
        return int(row["share"] * self.states) if "share" in row else self.least_host(row)

    def run(self, job: dict, enter=None) -> Outcome:
        file = self.write(job)
        shutil.rmtree(self.folder / "cache", ignore_errors=True)  # what is measured is of this run
        planned = json.loads(ferry("plan", file, "--json", folder=self.folder))
        ferry("train", file, folder=self.folder, enter=enter)
        log = [json.loads(line) for line in (self.folder / "run/log.jsonl").read_text().splitlines()]
        log = [line for line in log if "loss" in line]
        summary = json.loads((self.folder / "run/summary.json").read_text())
        seconds = [line["step_seconds"] for line in log[WARM_UP:]] or [log[-1]["step_seconds"]]
        pairs = [sum(pair) / 2 for pair in pairwise(seconds)] or seconds
        moved = {"read": 0, "written": 0}
        exact = True
        for drive in summary.get("drives", {}).values():
            for way, total in drive["measured"].items():
                moved[way] += total / drive["steps"]
                exact &= total == drive["steps"] * drive["predicted_per_step"][way]
        return Outcome(
            step=statistics.median(pairs),
            predicted=summary["predicted_step_seconds"],
            bound=planned["lower_bound_seconds"] if job["strategy"] == "auto" else planned["candidates"][0]["lower_bound_seconds"],
            busiest=planned["busiest_seconds"],
            bytes_exact=exact,
            read=moved["read"],
            written=moved["written"],
            losses=tuple(line["loss"] for line in log),
        )

    def table(self, rows: dict[str, dict]) -> None:
        hosts = {name: self.host_of(row) for name, row in rows.items()}
        runs: dict[str, list[Outcome]] = {name: [] for name in rows}
        for number in range(1, self.asked.rounds + 1):
            for name, row in rows.items():
                run = self.run(self.job(row, hosts[name]))
                runs[name].append(run)
                ratio = run.step / run.predicted
                print(f"round {number}, {name}: {run.step:.3f} s, {ratio:.3f} of its prediction", file=sys.stderr, flush=True)
        print("| placement | DRAM, GiB | read, written per step, GiB | as predicted | step | predicted | ratio | bound | step / bound | busiest | step / busiest |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for name, found in runs.items():
            of = sorted(found, key=lambda outcome: outcome.step / outcome.predicted)[len(found) // 2]
            cells = [
                name,
                f"{hosts[name] / GIB:.2f}",
                f"{of.read / GIB:.3f}, {of.written / GIB:.3f}",
                "yes" if all(each.bytes_exact for each in found) else "NO",
                f"{of.step:.2f} s",
                f"{of.predicted:.2f} s",
                f"{of.step / of.predicted:.3f}",
                f"{of.bound:.2f} s",
                f"{of.step / of.bound:.3f}",
                f"{of.busiest:.2f} s",
                f"{of.step / of.busiest:.3f}",
            ]
            print("| " + " | ".join(cells) + " |")
        losses = {outcome.losses for found in runs.values() for outcome in found}
        print(f"losses of all runs are {'equal' if len(losses) == 1 else 'NOT EQUAL'}; load {os.getloadavg()[0]:.1f}")

    def capped(self) -> None:
        from control_group import make_group

        limit = self.asked.limit or self.states // 3 >> 20  # MiB
        row = {"strategy": "auto"}
        shown = self.run(self.job(row)).losses if self.asked.beside else None
        group = make_group()
        try:
            group.limit(limit)
            job = self.job(row, int(self.asked.host * (limit << 20)))
            outcome = self.run(job, enter=group.enter)
            print(f"limit {limit} MiB, states {self.states / (limit << 20):.2f} times as large")
            print(f"peak of the group {group.peak() / (1 << 20):.0f} MiB, page cache included; killed {group.killed()}")
            summary = json.loads((self.folder / "run/summary.json").read_text())
            for place, peak in summary["measured_peak_bytes"].items():
                planned = summary["predicted_peak_bytes"][place]
                print(f"{place}: measured {peak / (1 << 20):.1f}, planned {planned / (1 << 20):.1f} MiB")
            print(f"step {outcome.step:.2f} s, predicted {outcome.predicted:.2f} s, bound {outcome.bound:.2f} s,", end=" ")
            print(f"busiest {outcome.busiest:.2f} s;", end=" ")
            print(f"read {outcome.read / GIB:.2f}, written {outcome.written / GIB:.2f} GiB per step, as predicted: {outcome.bytes_exact}")
            print(f"losses {outcome.losses[0]:.6f} to {outcome.losses[-1]:.6f} over {len(outcome.losses)} steps", end=" ")
            print("" if shown is None else "equal without a limit" if shown == outcome.losses else f"NOT those without a limit: {shown}")
        finally:
            group.folder.rmdir()


def main() -> None:
    if sys.argv[1:2] == ["--make"]:  # in a process of its own, whose memory goes with it
        print(make_model(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=["ablation", "placements", "capped"])
    parser.add_argument("--hidden", type=int, default=512, help="of 64 per head; 512")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=128, help="per micro-batch; 128")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--clip", type=float, default=0.0, help="0: no clipping, so that updates need not wait")
    parser.add_argument("--device", default="", help="budget.device; what the box has without it")
    parser.add_argument("--held", type=int, default=0, help="MB/s to which the drive is held; 0: as fast as it is")
    parser.add_argument("--drive", type=Path, help="a folder on the drive; the temporary one without it")
    parser.add_argument("--limit", type=int, default=0, help="capped: MiB; a third of the states without it")
    parser.add_argument("--host", type=float, default=0.5, help="capped: budget.host, of the limit; 0.5")
    parser.add_argument("--beside", action="store_true", help="capped: also without a limit, for its losses")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asked.drive = asked.drive or folder / "drive"
        asked.drive.mkdir(exist_ok=True)
        bench = Bench(folder, asked)
        if asked.question == "capped":
            bench.capped()
        else:
            bench.table(ABLATION if asked.question == "ablation" else PLACEMENTS)


if __name__ == "__main__":
    main()
