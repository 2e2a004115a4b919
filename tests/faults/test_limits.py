"""Limits of memory and of processes, from too little to enough: done, or refused in words, never an abort."""

import json
import subprocess

import pytest
from boxes import FERRY, limit_data, limit_processes

LIMITS = [(limit_data, mib) for mib in (*range(128, 190, 4), 200, 250, 300, 400, 500)]
LIMITS += [(limit_processes, count) for count in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 60)]


@pytest.mark.parametrize(("limit", "size"), LIMITS, ids=[f"{limit.__name__}-{size}" for limit, size in LIMITS])
def test_a_limit_ends_a_run_in_words_or_not_at_all(box, tmp_path, limit, size):
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(box.job("", train__steps=2, plan__profile="estimate", out=str(tmp_path / "out"))))
    command = [FERRY, "train", job]
    done = subprocess.run(command, preexec_fn=lambda: limit(size), capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 3), done.stderr
    if done.returncode == 3:
        last = done.stderr.splitlines()[-1]
        assert "ulimit" in last or "memory" in last, last
        assert not list(tmp_path.glob("out/checkpoints/*.tmp"))
