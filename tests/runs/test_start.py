"""What a run needs is looked at in a moment: before torch is loaded, or anything measured, planned or written."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import Box, contents, make_tokens, obey_permissions

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "0" + "\nsize 123456789\n"
POINTED = "a Git LFS pointer, not the file that it stands for\n  try: git lfs pull"


@pytest.fixture
def ask(box: Box, ferry_alone: Path, tmp_path: Path):
    """Runs `ferry train` without torch on a copy of the model; gives the message that refuses it.

    What is not refused in this way ends with exit code 3, since there is no ferry-torch to go on with.
    """
    shutil.copytree(box.model, tmp_path / "base")

    def asked(*words: str, expect: int = 2, file_size: int = resource.RLIM_INFINITY, **changes) -> str:
        job = box.job("asked", model=str(tmp_path / "base"), out=str(tmp_path / "out"), **changes)
        file = tmp_path / "asked.yaml"
        file.write_text(json.dumps(job))
        before = contents(tmp_path)
        command = [ferry_alone, "train", file, *words]

        def begin():
            obey_permissions()
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, resource.RLIM_INFINITY))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores

        started = os.times()
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=begin)
        ended = os.times()
        # A second at most; of the processor, since the box may be busy.
        assert ended.children_user + ended.children_system - started.children_user - started.children_system < 1
        assert done.returncode == expect, done.stdout + done.stderr
        assert contents(tmp_path) == before
        return done.stderr

    asked.model = tmp_path / "base"
    asked.folder = tmp_path
    return asked


def test_a_sound_job_goes_on_with_torch(ask):
    assert "ferry-torch: No such file" in ask(expect=3)


def test_data_that_cannot_be_learned_from_is_told(ask):
    assert "nowhere.jsonl: cannot be read: No such file" in ask("data.train=nowhere.jsonl")
    rows = ask.folder / "rows.jsonl"
    rows.write_text("")
    assert f"{rows}: the file is empty" in ask(f"data.train={rows}")
    rows.write_text(POINTER)
    assert f"{rows}: {POINTED}" in ask(f"data.train={rows}")
    rows.write_text('{"text": "a"}\n')
    assert f"{ask.model}: no tokenizer; expected" in ask(f"data.train={rows}")
    (ask.model / "tokenizer.json").write_text(POINTER)
    assert f"tokenizer.json: {POINTED}" in ask(f"data.train={rows}")
    (ask.model / "tokenizer.json").write_text("{}")
    assert "nowhere.jsonl: cannot be read: No such file" in ask(f"data.train={rows}", "data.eval=nowhere.jsonl")


def test_a_token_file_is_looked_at_by_its_header(ask):
    tokens = make_tokens(ask.folder / "other.tokens", 3, vocabulary=97)
    assert "vocabulary of 97 ids, the model's has 96" in ask(f"data.train={tokens}")
    tokens.write_bytes(tokens.read_bytes()[:-1])
    assert "other.tokens: damaged" in ask(f"data.train={tokens}")


def test_weights_are_looked_at_by_their_headers(ask):
    weights, config = ask.model / "model.safetensors", ask.model / "config.json"
    whole, fields = weights.read_bytes(), json.loads(config.read_text())
    weights.write_bytes(whole[:-5])
    assert "model.safetensors" in ask()
    weights.write_text(POINTER)
    assert f"{weights}: {POINTED}" in ask()
    weights.write_bytes(whole.replace(b'"dtype":"F32"', b'"dtype":"I32"', 1))
    assert "has dtype I32; expected F32, BF16 or F16" in ask()
    weights.write_bytes(whole)
    config.write_text(json.dumps(fields | {"num_hidden_layers": 15}))
    assert "model.layers.14" in ask() and "is missing among" in ask()
    config.write_text(json.dumps(fields | {"vocab_size": 95}))
    assert "config.json asks for [95, 64]" in ask("data.train=" + str(make_tokens(ask.folder / "small.tokens", 3, 95)))
    config.write_text(json.dumps(fields))
    weights.rename(ask.model / "model-00001-of-00003.safetensors")
    names = {f"t{n}": f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)}
    (ask.model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    missing = '"model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors" are missing'
    assert missing in ask()


def test_a_folder_that_cannot_be_written_is_told(ask):
    (ask.folder / "file").write_text("")
    assert "file: expected a folder (out), found a file" in ask(f"out={ask.folder}/file")
    assert "/proc/ferry" in ask("out=/proc/ferry", expect=3)
    (ask.folder / "closed").mkdir(mode=0o555)
    assert f"cannot write into {ask.folder}/closed" in ask(f"out={ask.folder}/closed", expect=3)


def test_what_the_job_names_beside_data_is_looked_at(ask):
    assert "nowhere.yaml" in ask("machine=nowhere.yaml")
    assert "nowhere.plan" in ask("--plan", "nowhere.plan")
    assert "--resume: no checkpoint in" in ask("--resume")
    assert "--allow is for --resume" in ask("--allow", "lr")
    assert "--allow sequense: no run depends on that; did you mean 'sequence'?" in ask("--resume", "--allow=sequense")


def test_room_for_every_checkpoint_is_asked_for_in_bytes(ask, box):
    said = ask("train.keep=1000000", "train.steps=1000000000", expect=3)
    need = int(re.search(r"1000001 more checkpoints of .* need (\d+) bytes, the drive has \d+ free", said).group(1))
    run = box.train("sized", train__steps=1)
    taken = sum(path.stat().st_size for path in run.checkpoint.rglob("*") if path.is_file())
    assert taken <= need / 1_000_001 <= 1.1 * taken
    # A run has no more checkpoints than steps: these fit.
    assert "ferry-torch: No such file" in ask("train.keep=1000000", "train.steps=3", expect=3)
    # One that saves nothing needs no room.
    unsaved = ("train.save_every=0", "train.save_minutes=0", "train.save_last=false")
    assert "ferry-torch: No such file" in ask("train.keep=1000000", "train.steps=1000000000", *unsaved, expect=3)


def test_a_limit_on_the_size_of_files_is_held_against_a_checkpoints_largest(ask, box):
    run = box.train("sized-files", train__steps=1)
    largest = max(path.stat().st_size for path in run.checkpoint.rglob("*") if path.is_file())
    assert "ferry-torch: No such file" in ask(file_size=2 * largest, expect=3)
    said = ask(file_size=largest - 1, expect=3)
    need = int(re.search(rf"checkpoints: a file of a checkpoint needs (\d+) bytes, files may have {largest - 1} ", said)[1])
    assert largest <= need <= 1.1 * largest
    unsaved = ("train.save_every=0", "train.save_minutes=0", "train.save_last=false")
    assert "ferry-torch: No such file" in ask(*unsaved, file_size=largest - 1, expect=3)


def test_a_limit_below_any_file_is_an_error_and_no_signal(ask):
    assert "File too large" in ask(file_size=0, expect=3)
