"""Tokenising that is killed leaves no process behind, and no file."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boxes import descendants, wait_for_ends

ROWS = 40_000


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A tokenizer of bytes, and texts that take seconds."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("tokenising")
    letters = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<end>"}')
    (folder / "x.jsonl").write_text("".join(json.dumps({"text": f"{n} " * 200}) + "\n" for n in range(ROWS)))
    return folder


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(source, seed, how):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: no workers")
    pick = random.Random(f"{seed} {how}")
    command = [sys.executable, "-m", "ferry_tools", "tokenize", "--model=.", "--cache=cache", "x.jsonl"]
    process = subprocess.Popen(command, cwd=source, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not (workers := descendants(process.pid)) and process.poll() is None:
        time.sleep(0.01)
    assert workers, "it ended before it had workers"
    time.sleep(pick.random())
    process.send_signal(how)
    assert process.wait(30) != 0
    wait_for_ends(workers, seconds=30)
    assert not list((source / "cache").iterdir()), f"seed {seed}"
