"""Limits of memory and of processes, from too little to enough: done, or refused in words, never an abort."""

import json
import signal
import subprocess
import threading

import pytest
from boxes import FERRY, limit_data, limit_processes

LIMITS = [(limit_data, mib) for mib in (*range(128, 190, 4), 200, 250, 300, 400, 500)]
LIMITS += [(limit_processes, count) for count in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 60)]


@pytest.mark.parametrize(("limit", "size"), LIMITS, ids=[f"{limit.__name__}-{size}" for limit, size in LIMITS])
def test_a_limit_ends_a_run_in_words_or_not_at_all(box, tmp_path, limit, size):
    job = tmp_path / "job.yaml"
    job.write_text(json.dumps(box.job("", train__steps=2, plan__profile="estimate", out=str(tmp_path / "out"))))
    code, message = end_of([FERRY, "train", job], lambda: limit(size))
    assert code in (0, 3), message
    if code == 3:
        assert "ulimit" in message or "memory" in message, message
        assert not list(tmp_path.glob("out/checkpoints/*.tmp"))


def end_of(command: list, limited) -> tuple[int, str]:
    """The exit code and the last message. Where the last save lacks memory nobody waits for more."""
    message = ""
    with subprocess.Popen(command, preexec_fn=limited, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        patience = threading.Timer(300, run.kill)
        patience.start()
        for line in run.stderr:
            message = message + line if line.startswith("  ") else line
            if "Ctrl-C ends the wait" in line:
                run.send_signal(signal.SIGINT)
        patience.cancel()
    return run.returncode, message
