"""Proves and measures ferry on one GPU, or rehearses that on a simulated one, in parts that are kept.

    scripts/gpu/run [DIR] [--device cuda:0|sim] [--strategy NAME] [--build FOLDER] [--part NAME ...] [--again]

A part that is done is not done again: what was interrupted goes on. Every part writes DIR/parts/NAME.json;
DIR/results.json and DIR/results.md are made of those that are there. docs/gpu.md says what each figure is.
Exit status: 0 every part was done and every check holds, 1 one does not, 3 something that the kit needs is missing.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

from shapes import GPU_DRIVES, GPU_LOSSES, GPU_SHAPES, SIM_SHAPES, Shape, parameters, write_model, write_tokens

ROOT = Path(__file__).resolve().parents[2]
WARM_UP = 2  # steps whose times do not count


class Missing(Exception):
    """What the kit needs is not on this machine."""


def rates_in(text: str, keys: tuple[str, ...]) -> dict[str, str]:
    """Of a machine file's lines, the rates that are there."""
    found = {key: re.search(rf"^ *{key}: (.+/s)$", text, re.MULTILINE) for key in keys}
    return {key: rate[1] for key, rate in found.items() if rate}


def bytes_of(budget: str) -> int:
    amount, unit = budget.split()
    return int(amount) << {"KiB": 10, "MiB": 20, "GiB": 30}[unit]


class DriverPeak:
    """The most that a GPU's driver said was used while this is open, beyond what was used before; None: not asked."""

    def __init__(self, index: int | None):
        self.index = index
        self.peak: int | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def used(self) -> int:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", str(self.index)]
        return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout) << 20

    def watch(self) -> None:
        try:
            before = self.used()
            while not self.ended.wait(0.2):
                self.peak = max(self.peak or 0, self.used() - before)
        except (OSError, subprocess.CalledProcessError, ValueError):
            self.peak = None  # this driver does not say

    def __enter__(self) -> "DriverPeak":
        if self.index is not None:
            self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.index is not None:
            self.thread.join()


def worst_difference(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, others, strict=True))


class Kit:
    """The parts, and what they share."""

    def __init__(self, asked: argparse.Namespace):
        self.folder = Path(asked.dir).resolve()
        self.simulated = asked.device == "sim"
        self.device = asked.device
        self.strategy = asked.strategy
        self.build_folder = Path(asked.build).resolve() if asked.build else self.folder / "build"
        self.builds = asked.build is None
        self.shapes = SIM_SHAPES if self.simulated else GPU_SHAPES
        self.precision = "fp32" if self.simulated else "bf16"
        self.environment = {**os.environ, "FERRY_CACHE": str(self.folder / "cache"), "PYTHONPATH": str(ROOT / "tools")}

    def parts(self) -> dict:
        shapes = {f"train-{shape.name}": lambda shape=shape: self.train_shape(shape) for shape in self.shapes}
        return {
            "build": self.build,
            "machine": self.machine_facts,
            "copies": self.copies,
            "tests": self.tests,
            "losses": self.losses,
            **shapes,
            "drives": self.drives,
            "logical-devices": self.logical_devices,
        }

    # ---- what is here

    def build(self) -> dict:
        if not self.builds:
            if not (self.build_folder / "ferry").exists():
                raise Missing(f"{self.build_folder} has no program ferry; build it, or leave --build out")
            return {"folder": str(self.build_folder), "seconds": 0}
        begin = time.monotonic()
        for tool in ("cmake", "g++"):
            if shutil.which(tool) is None:
                raise Missing(f"{tool} is not there")
        highs = subprocess.run([sys.executable, "-c", "import highsbox"], capture_output=True).returncode == 0
        packages = ROOT / "packages/usr"
        configure = ["cmake", "-S", ROOT, "-B", self.build_folder, f"-DFERRY_PYTHON={sys.executable}"]
        configure += ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1"]
        configure += [f"-DFERRY_HIGHS={'ON' if highs else 'OFF'}"]
        if packages.is_dir():  # brought along by scripts/gpu/pack
            configure += [f"-DCMAKE_PREFIX_PATH={packages}"]
        if shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        self.call(configure)
        targets = ["ferry", "ferry-torch", *(path.name for path in self.test_programs())]
        self.call(["cmake", "--build", self.build_folder, "-j", str(os.cpu_count()), "--target", *targets])
        return {"folder": str(self.build_folder), "seconds": round(time.monotonic() - begin, 1)}

    def machine_facts(self) -> dict:
        import torch

        facts = {"device": self.device, "torch": torch.__version__, "cuda": torch.version.cuda, "cores": os.cpu_count()}
        if not self.simulated:
            if not torch.cuda.is_available():
                raise Missing(f"torch {torch.__version__} finds no GPU here; --device sim rehearses without one")
            properties = torch.cuda.get_device_properties(self.device)
            facts |= {"gpu": properties.name, "memory_bytes": properties.total_memory}
        facts |= {"matrix_flops": self.matrix_rate()}
        written = self.folder / "machine.yaml"
        written.unlink(missing_ok=True)
        self.ferry("doctor", "--machine", str(written))
        facts["machine_file"] = written.read_text()
        return facts

    def matrix_rate(self) -> float:
        """FLOP/s of one large product in the precision that is trained in; the best of several."""
        import torch

        size, where = (256, "cpu") if self.simulated else (8192, self.device)
        kind = torch.float32 if self.precision == "fp32" else torch.bfloat16
        a, b = (torch.randn(size, size, device=where).to(kind) for _ in range(2))
        best = math.inf
        for _ in range(10):
            if not self.simulated:
                torch.cuda.synchronize()
            begin = time.perf_counter()
            a @ b
            if not self.simulated:
                torch.cuda.synchronize()
            best = min(best, time.perf_counter() - begin)
        return 2 * size**3 / best

    def copies(self) -> dict:
        """Milliseconds of a short copy that may begin with a long one of the same direction: docs/decisions/0024."""
        if self.simulated:
            return {"text": "not in a rehearsal"}
        import torch

        long, short, piece = 512 << 20, 32 << 20, 32 << 20
        there = torch.empty(long + short, dtype=torch.uint8, device=self.device)
        here = torch.empty(long + short, dtype=torch.uint8, pin_memory=True)
        first, second, aside = (torch.cuda.Stream(self.device) for _ in range(3))

        def send_long(way: str, to: torch.Tensor, source: torch.Tensor) -> None:
            if way == "alone":
                return
            step = long if way == "whole" else piece
            for begin in range(0, long, step):
                if begin > 0 and way == "pieces_with_turns":
                    aside.wait_stream(first)
                    first.wait_stream(aside)
                with torch.cuda.stream(first):
                    to[begin : begin + step].copy_(source[begin : begin + step], non_blocking=True)

        def milliseconds(way: str, to: torch.Tensor, source: torch.Tensor) -> dict:
            begun, sent, all_sent = (torch.cuda.Event(enable_timing=True) for _ in range(3))
            torch.cuda.synchronize()
            torch.cuda._sleep(10_000_000)  # all is enqueued by the time that it may begin
            begun.record()
            first.wait_event(begun)
            second.wait_event(begun)
            send_long(way, to, source)
            with torch.cuda.stream(second):
                to[long:].copy_(source[long:], non_blocking=True)
            sent.record(second)
            all_sent.record(first)
            torch.cuda.synchronize()
            return {"short": begun.elapsed_time(sent), "long": begun.elapsed_time(all_sent)}

        ways = ("alone", "whole", "pieces", "pieces_with_turns")
        directions = {"up": (there, here), "down": (here, there)}
        return {
            direction: {way: [milliseconds(way, *ends) for _ in range(3)][-1] for way in ways}
            for direction, ends in directions.items()
        }

    # ---- is it right

    def test_programs(self) -> list[Path]:
        folders = {"device": "src/device", "device_core": "src/device", "model": "src/model", "train_core": "src/train",
                   "train": "src/train", "step_runner": "tests/runs", "measure": "tests/runs"}  # fmt: skip
        return [self.build_folder / folder / f"{name}_test" for name, folder in folders.items()]

    def tests(self) -> dict:
        """On a GPU its own tests alone, in processes without simulated devices: torch trains on one kind per process."""
        counts = {"passed": 0, "failed": 0, "skipped": 0, "on_gpu": 0, "failures": []}
        for program in self.test_programs():
            if not program.exists():
                if self.builds:
                    raise Missing(f"{program} was not built")
                continue  # a developer's build may have some only
            report = self.folder / "tests" / f"{program.name}.json"
            chosen = self.sim_filter(program.name) if self.simulated else "*cuda*:*Cuda*"
            subprocess.run([program, f"--gtest_output=json:{report}", f"--gtest_filter={chosen}"], capture_output=True)
            for suite in json.loads(report.read_text())["testsuites"]:
                for case in suite["testsuite"]:
                    state = self.state_of(case)
                    counts[state] += 1
                    name = f"{suite['name']}.{case['name']}"
                    if state == "failed":
                        counts["failures"].append(name)
                    counts["on_gpu"] += state == "passed" and "cuda" in name.lower()
        counts["holds"] = counts["failed"] == 0 and (self.simulated or counts["on_gpu"] > 0)
        return counts

    @staticmethod
    def sim_filter(program: str) -> str:
        """A rehearsal runs what is quick: it shows that the part works."""
        return {"device_test": "*", "device_core_test": "*"}.get(program, "*AdamW*:*Attention*:*GradientSums*:*PackedRows*")

    @staticmethod
    def state_of(case: dict) -> str:
        if case.get("failures"):
            return "failed"
        return "skipped" if case["result"] == "SKIPPED" else "passed"

    def losses(self) -> dict:
        """Steps of a small model on the device, streamed through a small budget, and on the CPU, all of it in memory."""
        shape = replace(SIM_SHAPES[0], steps=20) if self.simulated else GPU_LOSSES
        there = self.train(shape, "losses-device", self.machine(1), "mobius", {"device": shape.budget}, "fp32")
        here = self.train(shape, "losses-cpu", [{"kind": "sim", "memory": "2 GiB"}], "resident", {"device": shape.plenty}, "fp32")
        worst = worst_difference(there["losses"], here["losses"])
        holds = self.agree(there["losses"], here["losses"])
        return {"device": there["losses"], "cpu": here["losses"], "worst_difference": worst, "bar": self.bar(), "holds": holds}

    # ---- how fast it is

    def index(self) -> int:
        return int(self.device.partition(":")[2] or 0)

    def machine(self, count: int, memory: str = "") -> list[dict]:
        """So many logical devices on the one there is."""
        if self.simulated:
            return [{"kind": "sim", "index": 0, "memory": memory or "1 GiB"} for _ in range(count)]
        import torch

        most = torch.cuda.get_device_properties(self.device).total_memory // 16 * 15
        device = {"kind": "cuda", "index": self.index(), "memory": memory or f"{most} B"} | self.links()
        return [device] * count

    def links(self) -> dict:
        """What `ferry doctor` says of the device's link: of its item in the machine file."""
        items = self.result("machine")["machine_file"].partition("devices:")[2].split("\n  - ")
        mine = next(item for item in items if re.search(rf"^ *index: {self.index()}$", item, re.MULTILINE))
        return rates_in(mine, ("up", "down")) | {"copies_in_turn": "copies_in_turn: true" in mine}

    def host(self) -> dict:
        """The processor's cores, nine tenths of the memory that is free now, and beside a GPU the measured rates."""
        free = int(Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]) * 1024
        found = {"cores": len(os.sched_getaffinity(0)), "memory": f"{free * 9 // 10} B"}
        if self.simulated:
            return found
        described = self.result("machine")["machine_file"].partition("devices:")[0]
        return found | rates_in(described, ("memory_bandwidth", "update_rate"))

    def train(self, shape: Shape, name: str, devices: list[dict], strategy: str, budget: dict, precision: str) -> dict:
        base = self.folder / "models" / shape.name
        tokens = base.with_name(base.name + ".tokens")
        write_model(shape, base, "cpu" if self.simulated else self.device)
        write_tokens(shape, tokens, shape.micro_batches * shape.micro_batch_size * shape.steps)
        out = self.folder / "runs" / name
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        box = {"name": "kit", "host": self.host(), "devices": devices}
        job = {
            "model": str(base),
            "data": {"train": str(tokens), "sequence": shape.sequence, "shuffle": False},
            "train": {"steps": shape.steps, "micro_batches": shape.micro_batches, "precision": precision,
                      "micro_batch_size": shape.micro_batch_size, "save_minutes": 0, "save_last": False},
            "optim": {"lr": 1e-4, "clip": 1.0, "schedule": "constant", "warmup_steps": 0},
            "machine": str(out.with_name(f"{name}.machine.json")),
            "plan": {"clipped": 1},  # as gradients of random weights are
            "budget": budget,
            "strategy": strategy,
            "out": str(out),
        }  # fmt: skip
        Path(job["machine"]).write_text(json.dumps(box))
        out.with_name(f"{name}.job.json").write_text(json.dumps(job))
        with DriverPeak(None if self.simulated else self.index()) as driver:
            self.ferry("train", str(out.with_name(f"{name}.job.json")))
        log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
        steps = [line for line in log if "step_seconds" in line]
        summary = json.loads((out / "summary.json").read_text())
        seconds = statistics.median(line["step_seconds"] for line in steps[WARM_UP:])
        trained = shape.sequence * shape.micro_batches * shape.micro_batch_size
        drives = summary.get("drives", {})
        measured, predicted = (sum(size for place, size in summary[f"{kind}_peak_bytes"].items() if place != "host" and place not in drives)
                               for kind in ("measured", "predicted"))  # fmt: skip
        return {
            "strategy": summary.get("strategy", strategy),
            "losses": [line["loss"] for line in steps],
            "step_seconds": seconds,
            "tokens_per_second": trained / seconds,
            "measured_over_predicted_step": seconds / summary["predicted_step_seconds"],
            "measured_peak_bytes": measured,
            "measured_over_predicted_peak": measured / predicted,
            "driver_peak_bytes": driver.peak,
            "measured_host_peak_bytes": summary["measured_peak_bytes"]["host"],
            "predicted_host_peak_bytes": summary["predicted_peak_bytes"]["host"],
            "beside_plan_bytes": summary["beside_plan_bytes"],
            "drives": drives,
        }

    def train_shape(self, shape: Shape) -> dict:
        count = parameters(shape)
        found = {"shape": asdict(shape), "parameters": count}
        for name, budget in (("capped", shape.budget), ("uncapped", shape.plenty)):
            run = self.train(shape, f"{shape.name}-{name}", self.machine(1), self.strategy, {"device": budget}, self.precision)
            run["share_of_matrix_rate"] = 6 * count * run["tokens_per_second"] / self.result("machine")["matrix_flops"]
            found[name] = run
        found["capped_over_uncapped"] = found["capped"]["tokens_per_second"] / found["uncapped"]["tokens_per_second"]
        found["capped_over_pytorch"] = self.over_pytorch(shape, found["capped"])
        driver_peak = found["capped"]["driver_peak_bytes"]
        found["within_cap"] = None if driver_peak is None else driver_peak <= bytes_of(shape.budget)
        agree = self.agree(found["capped"]["losses"], found["uncapped"]["losses"])
        found["holds"] = agree and found["within_cap"] is not False
        return found

    def over_pytorch(self, shape: Shape, capped: dict) -> float | str:
        """Against a plain loop of transformers in memory; or why there is none."""
        if self.simulated:
            return "not in a rehearsal"
        # bf16 weights and gradients, their fp32 copies and two moments
        needed, there = 20 * parameters(shape), self.result("machine")["memory_bytes"]
        if needed > there:
            return f"its states and gradients take {needed / 1e9:.0f} GB, the GPU has {there / 1e9:.0f}"
        base = self.folder / "models" / shape.name
        command = [sys.executable, ROOT / "bench/capped_vs_pytorch.py", "--as-pytorch", base, base.with_name(base.name + ".tokens")]
        command += ["--device", self.device, "--precision", self.precision]
        command += ["--steps", str(shape.steps), "--sequence", str(shape.sequence)]
        command += ["--micro-batches", str(shape.micro_batches), "--micro-batch-size", str(shape.micro_batch_size)]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            return (done.stderr.splitlines() or ["no reason given"])[-1]
        seconds = statistics.median(json.loads(done.stdout.splitlines()[-1])[WARM_UP:])
        return seconds / capped["step_seconds"]

    def agree(self, losses: list[float], others: list[float]) -> bool:
        return worst_difference(losses, others) <= self.bar()

    def bar(self) -> float:
        """By how much losses of the same run may differ. A GPU adds the embedding's gradients in any order."""
        return 0.0 if self.simulated else 1e-3

    def drives(self) -> dict:
        """States rest on the drive of DIR, in DRAM that they do not fit into: losses are those of a run in DRAM."""
        shape = SIM_SHAPES[0] if self.simulated else GPU_DRIVES
        host, space = ("2 MiB", "64 MiB") if self.simulated else ("3 GiB", "24 GiB")
        swap = self.folder / "swap"
        swap.mkdir(exist_ok=True)
        with_drive = {"host": host, "drive": {"path": str(swap), "capacity": space}}
        found: dict = {"shape": asdict(shape), "parameters": parameters(shape), "host_budget_bytes": bytes_of(host)}
        for name, more in (("in_dram", {}), ("from_drive", with_drive)):
            budget = {"device": shape.budget} | more
            found[name] = self.train(shape, f"drives-{name}", self.machine(1), "mobius", budget, self.precision)
        run = found["from_drive"]
        (moved,) = run["drives"].values()
        run["bytes_as_planned"] = all(moved["measured"][way] == shape.steps * moved["predicted_per_step"][way] for way in ("read", "written"))
        run["within_host_budget"] = run["measured_host_peak_bytes"] <= bytes_of(host)
        found["worst_difference"] = worst_difference(run["losses"], found["in_dram"]["losses"])
        agree = self.agree(run["losses"], found["in_dram"]["losses"])
        within = self.simulated or run["within_host_budget"]  # a process's fixed costs outweigh the small model's bytes
        found["holds"] = agree and run["bytes_as_planned"] and moved["measured"]["written"] > 0 and within
        return found

    def logical_devices(self) -> dict:
        """Four devices, of one GPU where there is one: their losses are those of one device."""
        shape = self.shapes[0]
        memory = "1 GiB" if self.simulated else "8 GiB"
        budget = shape.budget if self.simulated else "8 GiB"
        one = self.result(f"train-{shape.name}")["capped"]["losses"]
        found: dict = {"holds": True}
        for strategy in ("mobius", "roundpipe"):
            run = self.train(shape, f"four-{strategy}", self.machine(4, memory), strategy, {"device": budget}, self.precision)
            run["worst_difference"] = worst_difference(run["losses"], one)
            found[strategy] = run
            found["holds"] = found["holds"] and self.agree(run["losses"], one)
        return found

    # ---- parts and programs

    def call(self, command: list) -> None:
        with open(self.folder / "log.txt", "a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            done = subprocess.run(command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
        if done.returncode != 0:
            tail = (self.folder / "log.txt").read_text().splitlines()[-5:]
            raise RuntimeError(f"exit {done.returncode} of {' '.join(map(str, command))}: {' | '.join(tail)}")

    def ferry(self, *arguments: str) -> None:
        self.call([self.build_folder / "ferry", *arguments])

    def result(self, part: str) -> dict:
        file = self.folder / "parts" / f"{part}.json"
        if not file.exists():
            raise Missing(f"part {part} was not done, and a later one needs it; leave --part out")
        return json.loads(file.read_text())

    def run_part(self, name: str, again: bool) -> bool:
        """Whether the part is done and its checks hold."""
        file = self.folder / "parts" / f"{name}.json"
        if file.exists() and not again and "error" not in self.result(name):
            return self.result(name).get("holds", True)
        print(f"== {name}", flush=True)
        begin = time.monotonic()
        try:
            result = self.parts()[name]()
        except (RuntimeError, OSError, KeyError, ValueError) as error:
            result = {"error": f"{type(error).__name__}: {error}", "holds": False}
        result["part_seconds"] = round(time.monotonic() - begin, 1)
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps(result, indent=1))
        unfinished.rename(file)
        print(f"   {result['part_seconds']} s{': ' + result['error'] if 'error' in result else ''}", flush=True)
        return result.get("holds", True)


def table(results: dict) -> str:
    """One row per run."""
    rows = ["| run | tokens/s | share of matrix rate | step, measured / predicted | peak, measured / predicted | holds |",
            "|---|---|---|---|---|---|"]  # fmt: skip
    for part, result in results.items():
        holds = {True: "yes", False: "**no**", None: ""}[result.get("holds")]
        runs = {name: run for name, run in result.items() if isinstance(run, dict) and "tokens_per_second" in run}
        if not runs and (holds or "error" in result):
            rows.append(f"| {part} | | | | | {holds} |")
        for name, run in runs.items():
            share = f"{run['share_of_matrix_rate']:.3f}" if "share_of_matrix_rate" in run else ""
            rows.append(
                f"| {part}, {name} | {run['tokens_per_second']:.0f} | {share} | {run['measured_over_predicted_step']:.3f} "
                f"| {run['measured_over_predicted_peak']:.3f} | {holds} |"
            )
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?", default="out/gpu", metavar="DIR")
    parser.add_argument("--device", default="cuda:0", help="cuda:K, or sim: a rehearsal with small models")
    parser.add_argument("--strategy", default="auto", help="of the runs of one device; a named one is planned sooner")
    parser.add_argument("--build", metavar="FOLDER", help="a build that is there, build/release for example")
    parser.add_argument("--part", action="append", metavar="NAME", help="this part only; may be given again")
    parser.add_argument("--again", action="store_true", help="also what is done already")
    asked = parser.parse_args()
    kit = Kit(asked)
    (kit.folder / "parts").mkdir(parents=True, exist_ok=True)
    (kit.folder / "tests").mkdir(exist_ok=True)
    wanted = asked.part or list(kit.parts())
    unknown = [name for name in wanted if name not in kit.parts()]
    if unknown:
        parser.error(f"no part {unknown[0]}; expected one of {', '.join(kit.parts())}")
    try:
        all_hold = all([kit.run_part(name, asked.again) for name in wanted])
    except Missing as missing:
        print(f"scripts/gpu/run: {missing}", file=sys.stderr)
        return 3
    results = {name: kit.result(name) for name in kit.parts() if (kit.folder / "parts" / f"{name}.json").exists()}
    (kit.folder / "results.json").write_text(json.dumps(results, indent=1))
    (kit.folder / "results.md").write_text(table(results))
    print(table(results), end="")
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
