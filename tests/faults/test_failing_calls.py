"""The n-th call on the drive fails, for every n of a small run: success or a clear error, and never a wrong checkpoint."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from boxes import FERRY, Run, make_model
from safetensors.torch import load_file

STEPS = 3
KINDS = ("write", "reserve", "sync", "rename", "create", "remove", "allocate")
EXPORTS_IN = "ferry"  # which needs no torch for it
WORDS = ("No space left on device", "Input/output error", "memory")


@dataclass(frozen=True)
class Trial:
    exit_code: int
    said: str
    failed: bool  # the call was made, and failed


@pytest.fixture(scope="module")
def shim(tmp_path_factory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", library, "-ldl"], check=True)
    return library


@pytest.fixture(scope="module")
def small(box, tmp_path_factory) -> dict:
    """A job of two layers that saves after every step."""
    model = make_model(tmp_path_factory.mktemp("small") / "base", num_hidden_layers=2)
    return {"model": str(model), "train__steps": STEPS, "train__save_every": 1, "train__keep": 1}


@pytest.fixture(scope="module")
def whole(box, small) -> Run:
    return box.train("calls-whole", **small)


def run_failing(command: list, shim: Path, told: Path, fault: str, below: Path, **names: str) -> Trial:
    """A command of whose calls on files below a folder one fails: `fault` is KIND:N."""
    told.unlink(missing_ok=True)
    shown = {"LD_PRELOAD": shim, "FERRY_FAIL": fault, "FERRY_FAIL_TOLD": told, "FERRY_FAIL_BELOW": below}
    environment = os.environ | {key: str(value) for key, value in (shown | names).items()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return Trial(done.returncode, done.stderr, told.exists())


def attempt(box, shim: Path, name: str, small: dict, kind: str, n: int, cache: Path | None = None) -> Trial:
    """A run whose n-th call of a kind on its folder fails; on its cache, where there is one of its own."""
    shutil.rmtree(box.folder / name, ignore_errors=True)
    job = box.job(name, **small)
    file = box.folder / f"{name}.yaml"
    file.write_text(json.dumps(job))
    told = box.folder / f"{name}.told"
    names = {"FERRY_CACHE": cache} if cache else {}
    return run_failing([FERRY, "train", file], shim, told, f"{kind}:{n}", cache or job["out"], **names)


def goes_on_to_the_same_end(box, name: str, small: dict, whole: Run) -> None:
    """Whatever is there: a run from it, or anew, ends in the weights of the unbroken run."""
    saved = list((box.folder / name / "checkpoints").glob("step-??????"))
    if not saved:
        shutil.rmtree(box.folder / name, ignore_errors=True)  # a run that failed early has made none
    box.train(name, *(["--resume"] if saved else []), **small)
    # Not by summary.json: where that alone failed, there is nothing left to do.
    ended = load_file(box.folder / name / "checkpoints" / f"step-{small['train__steps']:06d}" / "model.safetensors")
    for tensor, values in whole.tensors().items():
        assert torch.equal(values, ended[tensor]), tensor


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_may_fail(box, shim, small, whole, kind):
    failed = 0
    for n in range(1, 1000):
        name = f"calls-{kind}"
        trial = attempt(box, shim, name, small, kind, n)
        if not trial.failed:
            assert trial.exit_code == 0, trial
            break
        failed += 1
        assert trial.exit_code in (0, 3), (n, trial)
        if trial.exit_code == 3:
            assert any(words in trial.said for words in WORDS), (n, trial)
        goes_on_to_the_same_end(box, name, small, whole)
    assert failed > 0


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "create"])
def test_every_call_on_the_cache_may_fail_and_the_run_does_without(box, shim, small, whole, tmp_path, kind):
    name, cache = f"cached-{kind}", tmp_path / "cache"
    for n in range(1, 100):
        shutil.rmtree(cache, ignore_errors=True)
        trial = attempt(box, shim, name, small, kind, n, cache)
        assert trial.exit_code == 0, (n, trial)
        if not trial.failed:
            break
        assert all(kept.suffix == ".json" for kept in cache.glob("*/*")), f"{n}: a file is left behind"
        ended = load_file(box.folder / name / "checkpoints" / f"step-{STEPS:06d}" / "model.safetensors")
        for tensor, values in whole.tensors().items():
            assert torch.equal(values, ended[tensor]), (n, tensor)
    assert n > 1


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def every_call(run, kind: str) -> None:
    """`run(fault)` is a trial; each is repaired by the caller's next one without a fault."""
    for n in range(1, 200):
        trial = run(f"{kind}:{n}")
        if not trial.failed:
            assert trial.exit_code == 0, trial
            break
        assert trial.exit_code in (0, 3), (n, trial)
        if trial.exit_code == 3:
            assert any(words in trial.said for words in WORDS), (n, trial)
    assert n > 1


@pytest.mark.parametrize("kind", ["write", "reserve", "sync", "rename", "create"])
def test_every_call_of_an_export_may_fail(box, shim, whole, tmp_path, kind):
    to = tmp_path / "exported"
    command = [FERRY, "export", whole.out, to, "--dtype", "bf16"]
    subprocess.run(command, check=True, capture_output=True)
    right = contents(to)

    def run(fault: str) -> Trial:
        shutil.rmtree(to, ignore_errors=True)
        trial = run_failing(command, shim, tmp_path / "told", fault, to, FERRY_FAIL_IN=EXPORTS_IN)
        if trial.exit_code == 0:
            assert contents(to) == right
        else:
            subprocess.run(command, check=True, capture_output=True)
            assert contents(to) == right, fault
        return trial

    every_call(run, kind)


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "create"])
def test_every_call_of_the_tokeniser_may_fail(shim, tmp_path, kind):
    model, rows, cache = tmp_path / "base", tmp_path / "rows.jsonl", tmp_path / "cache"
    subprocess.run([FERRY, "init", model], check=True, capture_output=True)
    rows.write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(20)))
    program = Path(sys.executable).resolve().name
    command = [sys.executable, "-P", "-m", "ferry_tools", "tokenize", f"--cache={cache}", f"--model={model}", rows]
    subprocess.run(command, check=True, capture_output=True)
    right = contents(cache)

    def run(fault: str) -> Trial:
        shutil.rmtree(cache)
        trial = run_failing(command, shim, tmp_path / "told", fault, cache, FERRY_FAIL_IN=program)
        if trial.exit_code != 0:
            assert not any(name.endswith(".tokens") for name in contents(cache)), fault
            subprocess.run(command, check=True, capture_output=True)
        assert {name: text for name, text in contents(cache).items() if not name.endswith(".tmp")} == right, fault
        return trial

    every_call(run, kind)
