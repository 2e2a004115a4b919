"""What a run prints while it goes: as wide as a terminal, whole in a file."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios

import pytest
from conftest import FERRY

COLUMNS = 50


@pytest.fixture(scope="module")
def job(box):
    content = box.job("console", train__steps=2)
    file = box.folder / "console.yaml"
    file.write_text(json.dumps(content))
    return file


def on_terminal(job, out) -> list[str]:
    """The lines that stay on a terminal of so many columns."""
    main, worker = pty.openpty()
    fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    command = [FERRY, "train", str(job), f"out={out}"]
    with subprocess.Popen(command, stdout=worker, stderr=worker, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(worker)
        text = b""
        try:
            while piece := os.read(main, 4096):
                text += piece
        except OSError:  # the last one has closed it
            pass
        assert process.wait(timeout=60) == 0
    os.close(main)
    return [line.split("\r\x1b[K")[-1] for line in text.decode().replace("\r\n", "\n").split("\n")]


def run_lines(lines: list[str]) -> list[str]:
    """Those of steps and of what was saved, without the tables."""
    return [line for line in lines if line.startswith("step  ") and ("loss" in line or "saved" in line)]


def test_a_terminal_gets_lines_of_its_width_and_a_file_gets_them_whole(job, box, tmp_path):
    steps = run_lines(on_terminal(job, tmp_path / "shown"))
    assert len(steps) == 3, "two steps and what was saved"
    assert all(len(line) == COLUMNS and line.endswith("…") for line in steps), steps
    done = subprocess.run([FERRY, "train", str(job)], capture_output=True, text=True, check=True)
    steps = run_lines(done.stdout.splitlines())
    assert [line.split()[-2] for line in steps[:2]] == ["stall", "stall"], steps
    assert "\x1b" not in done.stdout + done.stderr
