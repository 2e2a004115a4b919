"""What a user hands in is data: it is read or refused, never run, never waited for."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import FERRY, add_tokenizer, contents, limit_data, limit_processes

EVIL = "open({marker!r}, 'w').close()\nraise SystemExit('a file of the current folder was run')\n"


def run(folder: Path, *arguments: str, expect: int, **environment: str) -> str:
    done = subprocess.run(
        [FERRY, *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A folder with files that Python would import, and in it a model with its tokenizer, made there."""
    folder = tmp_path_factory.mktemp("input")
    for name in ("tokenizers.py", "transformers.py", "ferry_tools/__init__.py", "json.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(EVIL.format(marker=str(folder / "was-run")))
    run(folder, "init", "model", "--preset", "nano", expect=0, PYTHONPATH=":.:ferry_tools")
    return folder / "model"


def test_python_of_the_current_folder_is_not_run(model):
    folder = model.parent
    (folder / "rows.jsonl").write_text('{"text": "Ada has 3 apples."}\n' * 3)
    (folder / "job.yaml").write_text(json.dumps({"model": "model", "data": {"train": "rows.jsonl", "sequence": 16}}))
    assert "Ada" in run(folder, "data", "preview", "job.yaml", expect=0, PYTHONPATH="")
    assert not (folder / "was-run").exists()


def test_training_runs_no_python_of_the_current_folder_and_takes_names_with_dashes(model):
    folder = model.parent
    (folder / "--model").symlink_to(model)
    (folder / "--rows.jsonl").write_text('{"--text": "Ada has 3 apples."}\n' * 3)
    job = {"model": "--model", "data": {"train": "--rows.jsonl", "sequence": 16, "text_key": "--text"}}
    job |= {"train": {"steps": 1, "precision": "fp32"}, "plan": {"profile": "estimate"}, "out": str(folder / "--out")}
    (folder / "train.yaml").write_text(json.dumps(job))
    assert "dry run: all is there" in run(folder, "train", "train.yaml", "--dry-run", expect=0, PYTHONPATH="")
    assert not (folder / "was-run").exists()


def test_a_models_own_code_is_neither_run_nor_asked_about(model, tmp_path):
    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(EVIL.format(marker=str(tmp_path / "was-run")))
    said = run(tmp_path, "generate", ".", "--prompt", "Ada", expect=2)
    assert "[y/N]" not in said
    assert not (tmp_path / "was-run").exists()


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_what_is_no_regular_file_is_refused_at_once(box, kind, tmp_path):
    odd = tmp_path / "odd"
    if kind == "FIFO":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero")
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(box.job("odd", out=str(tmp_path / "out"))))
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_bytes((box.model / "config.json").read_bytes())
    (model / "model.safetensors").symlink_to(odd)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").symlink_to(odd)
    chat = shutil.copytree(box.model, tmp_path / "chat")
    add_tokenizer(chat)
    wordless = shutil.copytree(box.model, tmp_path / "wordless")
    (wordless / "tokenizer.json").symlink_to(odd)
    (tmp_path / "rows.jsonl").write_text('{"text": "Ada"}\n')
    rows = f"data.train={tmp_path / 'rows.jsonl'}"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").symlink_to(odd)
    asked = [
        ("plan", odd),
        ("plan", job, f"machine={odd}"),
        ("plan", job, f"plan.profile={odd}"),
        ("plan", job, f"model={tmp_path / 'bare'}"),
        ("simulate", odd),
        ("train", job, "data.train=" + str(tmp_path / "odd.tokens")),
        ("train", job, f"model={model}"),
        ("train", job, f"model={chat}", "data.train=" + str(tmp_path / "odd.jsonl")),
        ("train", job, f"model={chat}", rows, "data.eval=" + str(tmp_path / "odd.jsonl")),
        ("train", job, f"model={chat}", rows, f"data.chat_template={odd}"),
        ("train", job, f"model={wordless}", rows),
        ("report", tmp_path / "run"),
    ]
    for name in ("odd.tokens", "odd.jsonl"):
        (tmp_path / name).symlink_to(odd)
    for arguments in asked:
        assert f"is a {kind}; expected a regular file" in run(tmp_path, *map(str, arguments), expect=2), arguments
    previewed = run(tmp_path, "data", "preview", "odd.jsonl", "--model", "chat", expect=2)
    assert "odd.jsonl: neither a file nor a folder; expected JSONL" in previewed


def test_a_run_with_a_fifo_in_its_folder_does_not_wait(box):
    run = box.train("odd-run", train__steps=1, plan__profile="estimate")
    for file in (run.checkpoint / "ferry" / "manifest.json", run.out / "log.jsonl"):
        kept = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        said = box.train("odd-run", "--resume", train__steps=2, plan__profile="estimate", expect=2).text
        assert f"{file}: is a FIFO; expected a regular file" in said
        file.unlink()
        file.write_bytes(kept)


def test_a_file_nested_too_deep_is_refused_in_words(box, tmp_path):
    deep = "[" * 100_000
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(box.job("deep", out=str(tmp_path / "out"))))
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": ' + deep)
    (tmp_path / "harmony.json").write_text('{"format": "harmony-profile-1", "model": ' + deep)
    for change in (f"model={tmp_path}", f"plan.profile={tmp_path / 'harmony.json'}"):
        assert "more than 64 levels of lists and objects" in run(tmp_path, "plan", str(job), change, expect=2)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (lambda: limit_data(100), "torch needs 128 MiB of data to begin with; the limit (ulimit -d) is 102400 KiB"),
        (lambda: limit_data(130), "memory"),  # the first thread that has no stack, or the first large block
        (lambda: limit_processes(1), "cannot start a second process: Resource temporarily unavailable; see the limits"),
        (lambda: limit_processes(3), "no more threads can be started; see the limits of processes"),
    ],
    ids=["data 100", "data 130", "processes 1", "processes 3"],
)
def test_too_little_memory_or_too_few_processes_are_said(box, tmp_path, limit, said):
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(box.job("little", out=str(tmp_path / "out"), plan__profile="estimate")))
    command = [FERRY, "train", job]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert said in done.stderr
