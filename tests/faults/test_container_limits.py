"""In a control group with little memory a job is told that it does not fit, or it runs; the kernel kills nothing."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from boxes import FERRY, Box, add_tokenizer, make_model, make_tokens
from control_group import Group, make_group


@pytest.fixture
def group() -> Iterator[Group]:
    try:
        made = make_group()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield made
    made.folder.rmdir()


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Box:
    """17 million parameters: 200 MiB of states, 66 MiB of gradients."""
    folder = tmp_path_factory.mktemp("large")
    sizes = {"hidden_size": 384, "intermediate_size": 1024, "num_hidden_layers": 8, "vocab_size": 4096}
    return Box(folder, make_model(folder / "base", **sizes), make_tokens(folder / "data.tokens", 20, 4096))


def train_within(group: Group, limit: int, large: Box, name: str, **job) -> subprocess.CompletedProcess:
    """A run in a control group of `limit` MiB: not killed, it trains or says that it does not fit."""
    file = large.folder / f"{name}.yaml"
    file.write_text(json.dumps(job))
    group.limit(limit)
    done = subprocess.run(
        [FERRY, "train", file], capture_output=True, text=True, timeout=600, preexec_fn=group.enter
    )
    said = f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert group.killed() == 0, said
    assert done.returncode in (0, 4), said
    if done.returncode == 4:
        assert "this machine: " in done.stdout and str(group.folder.name) in done.stdout, said
    if limit >= 760:
        assert done.returncode == 0, said
    return done


def unlimited_job(large: Box, name: str) -> dict:
    """On the machine as it is found, within its memory."""
    job = large.job(name, train__steps=3, train__eval_every=2, data__eval_fraction=0.2, strategy="auto")
    del job["machine"], job["budget"]
    return job | {"threads": 1}


@pytest.mark.parametrize("limit", [200, 320, 400, 480, 520, 560, 600, 640, 680, 720, 760, 800, 1000])
def test_no_limit_of_a_container_lets_the_kernel_kill_a_run(large, group, limit):
    job = unlimited_job(large, f"in-{limit}")
    train_within(group, limit, large, f"in-{limit}", **job | {"plan": {"profile": "estimate"}})


@pytest.mark.parametrize("limit", [400, 640, 800, 1000])
def test_tokenising_and_measuring_keep_to_it_too(large, group, limit, monkeypatch, tmp_path):
    monkeypatch.setenv("FERRY_CACHE", str(tmp_path))
    add_tokenizer(large.model)
    rows = large.folder / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": f"{row} is a number. " * 40}) + "\n" for row in range(4_000)))
    job = unlimited_job(large, f"text-{limit}")
    job["data"] |= {"train": str(rows), "eval_fraction": 0.005}
    done = train_within(group, limit, large, f"text-{limit}", **job)
    if done.returncode == 0:
        assert "tokenised rows.jsonl: 4,000 rows" in done.stderr and "measuring" in done.stderr
