"""In a control group with little memory a job is told that it does not fit, or it runs; the kernel kills nothing."""

import json
import subprocess
from collections.abc import Iterator

import pytest
from boxes import FERRY, Box, make_model, make_tokens
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


@pytest.mark.parametrize("limit", [200, 320, 400, 480, 520, 560, 600, 640, 680, 720, 760, 800, 1000])
def test_no_limit_of_a_container_lets_the_kernel_kill_a_run(large, group, limit):
    job = large.job(f"in-{limit}", train__steps=3, train__eval_every=2, data__eval_fraction=0.2, strategy="auto")
    del job["machine"], job["budget"]
    job |= {"threads": 1, "plan": {"profile": "estimate"}}
    file = large.folder / f"in-{limit}.yaml"
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
