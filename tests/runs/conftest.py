"""A tiny model, its tokens, and the ferry program run as a user runs it."""

import ctypes
import json
import os
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from ferry_tools import token_file
from ferry_tools.samples import Sample

FERRY = Path(os.environ["FERRY_PROGRAM"])
STEPS = 10
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_SYS_ADMIN, CAP_SYS_RESOURCE = 24, 1, 21, 24


@dataclass(frozen=True)
class Box:
    """A folder with a model and tokens, and a job that the tests vary."""

    folder: Path
    model: Path
    tokens: Path

    def job(self, name: str, **changes) -> dict:
        """The base job with `section__key=value` changes."""
        job = {
            "model": str(self.model),
            "data": {"train": str(self.tokens), "sequence": 32, "shuffle": False},
            "train": {"steps": STEPS, "micro_batches": 3, "micro_batch_size": 2, "precision": "fp32"},
            "optim": {"lr": 1e-2, "weight_decay": 0.1, "clip": 0.5, "schedule": "constant", "warmup_steps": 0},
            "budget": {"host": "1 GiB"},
            "machine": str(machine(self.folder, 1)),
            "strategy": "resident",
            "out": str(self.folder / name),
        }
        for key, value in changes.items():
            section, _, rest = key.partition("__")
            if rest:
                job.setdefault(section, {})[rest] = value
            else:
                job[section] = value
        return job

    def write_job(self, name: str, **changes) -> tuple[Path, Path]:
        """A job file that is ready to train, and the run's folder."""
        job = self.job(name, **changes)
        file = self.folder / f"{name}.yaml"
        file.write_text(json.dumps(job))  # JSON is YAML
        return file, Path(job["out"])

    def train(self, name: str, *flags: str, expect: int = 0, **changes) -> "Run":
        """Runs `ferry train` and returns what it left."""
        file, out = self.write_job(name, **changes)
        done = ferry("train", str(file), *flags, expect=expect)
        return Run(out, done.stdout + done.stderr)

    def start(self, name: str, *flags: str, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **changes) -> "Started":
        """Begins `ferry train` and returns while it runs."""
        file, out = self.write_job(name, **changes)
        command = [FERRY, "train", str(file), *flags]
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True)
        return Started(process, out)


@dataclass(frozen=True)
class Run:
    out: Path
    text: str

    @property
    def log(self) -> list[dict]:
        return [json.loads(line) for line in (self.out / "log.jsonl").read_text().splitlines()]

    @property
    def losses(self) -> list[float]:
        return [line["loss"] for line in self.log if "loss" in line]

    @property
    def summary(self) -> dict:
        return json.loads((self.out / "summary.json").read_text())

    @property
    def checkpoint(self) -> Path:
        return Path(self.summary["checkpoint"])

    def tensors(self) -> dict:
        from safetensors.torch import load_file

        return load_file(self.checkpoint / "model.safetensors")


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen
    out: Path

    @property
    def logged(self) -> list[int]:
        """The steps that the log has, as they stand there; the last line may be half written."""
        log = self.out / "log.jsonl"
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return [line["step"] for line in map(json.loads, lines) if "loss" in line]

    @property
    def steps(self) -> int:
        return len(self.logged)

    @property
    def summary(self) -> dict:
        return json.loads((self.out / "summary.json").read_text())

    @property
    def checkpoints(self) -> list[str]:
        return sorted(path.name for path in (self.out / "checkpoints").glob("*"))

    def wait_until(self, holds: Callable[[], object], seconds: float = 120) -> None:
        """Looks again and again; fails when the program ends before, or all takes far too long."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline, "it does not come about"
            time.sleep(0.01)

    def end(self, expect: int) -> str:
        """Waits for the end; returns what it said on standard error."""
        _, said = self.process.communicate(timeout=120)
        assert self.process.returncode == expect, f"exit {self.process.returncode}\n{said}"
        return said


def descendants(process: int) -> list[int]:
    """The processes below one, of those that are still there."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            below = [int(child) for child in children.read_text().split()]
        except OSError:  # it has just ended
            continue
        found += [child for direct in below for child in (direct, *descendants(direct))]
    return found


def has_ended(process: int) -> bool:
    """Whether a process is gone, or waits only for its parent to hear so.

    Of all its threads: while one is still ending, so are the process's files and the locks on them.
    """
    for thread in Path(f"/proc/{process}/task").glob("*/stat"):
        try:
            if thread.read_text().rpartition(")")[2].split()[0] not in "ZX":
                return False
        except OSError:  # it has just ended
            continue
    return True


def wait_for_ends(processes: list[int], seconds: float = 60) -> None:
    """Those below a process that has ended follow it, but not in the same instant."""
    deadline = time.monotonic() + seconds
    while left := [process for process in processes if not has_ended(process)]:
        assert time.monotonic() < deadline, f"{left} live on"
        time.sleep(0.01)


def same_bits(run: Run, other: Run, steps: int = STEPS) -> None:
    """Equal losses of so many steps, and equal weights."""
    import torch

    assert run.losses == other.losses
    assert len(run.losses) == steps
    tensors, others = run.tensors(), other.tensors()
    assert tensors.keys() == others.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, others[name]), name


def expect_predicted_peaks(run: Run, beside_plan: int = 64 << 20) -> None:
    """Devices hold what was predicted, and at most so much; the process at most `beside_plan` more."""
    summary = run.summary
    for place, predicted in summary["predicted_peak_bytes"].items():
        measured = summary["measured_peak_bytes"][place]
        assert measured >= 0.95 * predicted, place
        if place != "host":
            assert measured <= predicted, place
        else:
            assert measured <= predicted + summary["beside_plan_bytes"]
    assert summary["beside_plan_bytes"] <= beside_plan


def ferry(*arguments: str, expect: int = 0, seconds: int = 300) -> subprocess.CompletedProcess:
    done = subprocess.run([FERRY, *arguments], capture_output=True, text=True, timeout=seconds)
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def obey_permissions() -> None:
    """Before a program begins: it writes what its user may, root included."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def limit_data(mib: int) -> None:
    """Before a program begins: it gets so much memory for data."""
    resource.setrlimit(resource.RLIMIT_DATA, (mib << 20, mib << 20))


def limit_processes(count: int) -> None:
    """Before a program begins: its user has so many processes and threads at most."""
    if os.geteuid() == 0:  # whom the kernel does not count: the program's user is one that has no others
        for privilege in (CAP_SYS_ADMIN, CAP_SYS_RESOURCE):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, privilege, 0, 0, 0)
        os.setresuid(54321, 0, 0)
    resource.setrlimit(resource.RLIMIT_NPROC, (count, count))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, with what files hold."""
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def machine(folder: Path, devices: int, rate: str | None = None) -> Path:
    """A machine of simulated devices with one kernel thread each, throttled when a rate is given."""
    file = folder / f"machine-{devices}-{rate or 'free'}.yaml".replace("/", "-").replace(" ", "")
    listed = []
    for index in range(devices):
        device = {"name": f"gpu{index}", "kind": "sim", "index": index, "memory": "4 GiB", "threads": 1}
        if rate:
            device |= {"up": rate, "down": rate, "root": f"root{index % 2}"}
        listed.append(device)
    host = {"cores": 2, "memory": "8 GiB"}
    content = {"name": file.stem, "host": host, "devices": listed}
    if rate:
        content["roots"] = [{"name": f"root{index}", "up": rate, "down": rate} for index in range(2)]
    file.write_text(json.dumps(content))
    return file


def make_model(folder: Path, **changes) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(5)
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 14,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 96,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
        "initializer_range": 0.1,
    }
    LlamaForCausalLM(LlamaConfig(**sizes | changes)).save_pretrained(folder)
    return folder


def add_tokenizer(model: Path) -> None:
    """A tokenizer of single characters, for a vocabulary of 96."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = ["<end>", *sorted({chr(c) for c in range(32, 123)} - set("~{}`^")), "\n"]
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<end>"])
    tokenizer.save(str(model / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<end>"}
    (model / "tokenizer_config.json").write_text(json.dumps(settings))


def make_gpt2(folder: Path) -> Path:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(6)
    config = GPT2Config(
        n_embd=64, n_layer=6, n_head=4, vocab_size=96, n_positions=64, initializer_range=0.1,
        bos_token_id=95, eos_token_id=95,
    )  # fmt: skip
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def make_tokens(file: Path, rows: int, vocabulary: int = 96) -> Path:
    """Rows of unequal lengths, of which the first third is not learned."""
    pick = random.Random(3)
    samples = []
    for _ in range(rows):
        length = pick.randint(5, 40)
        start = pick.randrange(vocabulary)
        ids = [(start + 3 * i) % vocabulary for i in range(length)]
        samples.append(Sample(ids, bytes(i > length // 3 for i in range(length))))
    token_file.write(file, vocabulary, vocabulary - 1, b"\1" * 32, samples)
    return file


def states_bytes(model: Path) -> int:
    """12 bytes per parameter: weights and optimizer state."""
    from safetensors import safe_open

    with safe_open(model / "model.safetensors", "pt") as file:
        numel = sum(file.get_tensor(name).numel() for name in file.keys())
    return 12 * numel


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory) -> None:
    """One cache for all tests: measuring takes seconds."""
    os.environ["FERRY_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def box(tmp_path_factory) -> Box:
    folder = tmp_path_factory.mktemp("runs")
    return Box(folder, make_model(folder / "base"), make_tokens(folder / "data.tokens", 37))


@pytest.fixture(scope="session")
def ferry_alone(tmp_path_factory) -> Path:
    """ferry without ferry-torch: what it still answers, it answers before torch is loaded."""
    return Path(shutil.copy(FERRY, tmp_path_factory.mktemp("alone") / "ferry"))


@pytest.fixture(scope="session")
def gpt2_box(tmp_path_factory) -> Box:
    folder = tmp_path_factory.mktemp("gpt2")
    return Box(folder, make_gpt2(folder / "base"), make_tokens(folder / "data.tokens", 37))


@pytest.fixture(scope="session")
def tied_box(tmp_path_factory) -> Box:
    folder = tmp_path_factory.mktemp("tied")
    return Box(folder, make_model(folder / "base", tie_word_embeddings=True), make_tokens(folder / "data.tokens", 37))
