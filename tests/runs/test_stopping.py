"""Whatever ends a run, what it has done is saved, and no process of it lives on."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import termios
from pathlib import Path

import pytest
from conftest import FERRY, Started, add_tokenizer, descendants, has_ended, wait_for_ends

MANY = 100000  # steps


def is_saved(run) -> bool:
    return run.checkpoints == [f"step-{run.steps:06d}"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT], ids=lambda number: number.name)
def test_a_signal_saves_and_exits_130(box, number):
    run = box.start(f"stopped-{number.name}", train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    run.process.send_signal(number)
    said = run.end(expect=130)
    assert f"{number.name}: finishing the steps that have begun, then saving" in said
    assert is_saved(run)


def test_a_signal_to_the_whole_group_counts_once(box):
    """As a terminal sends it: the process that watches the trainer must not send it again."""
    run = box.start("stopped-group", train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    for process in (run.process.pid, *descendants(run.process.pid)):
        os.kill(process, signal.SIGINT)
    run.end(expect=130)
    assert is_saved(run)


def test_a_terminal_that_hangs_up_on_a_session_of_one_command_saves(box, tmp_path):
    """As `ssh -t box ferry train ...`: no shell between, and only the leader of the session is told."""
    file, out = box.write_job("hung-up", train__steps=MANY)
    terminal, end = os.openpty()

    def begin():
        os.setsid()
        fcntl.ioctl(end, termios.TIOCSCTTY, 0)

    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen([FERRY, "train", file], stdout=said, stderr=said, preexec_fn=begin)
    os.close(end)
    run = Started(process, out)
    run.wait_until(lambda: run.steps >= 2)
    os.close(terminal)
    run.end(expect=130)
    assert "SIGHUP: finishing the steps that have begun, then saving" in (tmp_path / "said").read_text()
    assert is_saved(run)


def test_a_pipe_that_is_full_holds_up_nothing(box):
    """A pager that waits, a terminal that was stopped: steps go on, and a signal is heard."""
    run = box.start("full-pipe", train__steps=MANY)
    fcntl.fcntl(run.process.stdout, fcntl.F_SETPIPE_SZ, 8192)
    run.wait_until(lambda: run.steps >= 120)  # a line has more than 80 characters
    run.process.send_signal(signal.SIGTERM)
    run.wait_until(lambda: is_saved(run))
    out, said = run.process.communicate(timeout=120)
    assert run.process.returncode == 130, said
    printed = [line for line in out.splitlines() if line.startswith("step ") and " loss " in line]
    assert 0 < len(printed) < 120 and "model written to" in out


def test_a_pipe_of_errors_that_is_full_holds_up_nothing_either(box):
    run = box.start("full-errors", stdout=subprocess.DEVNULL, train__steps=MANY, train__save_every=1)
    fcntl.fcntl(run.process.stderr, fcntl.F_SETPIPE_SZ, 8192)
    run.wait_until(lambda: run.steps >= 60)  # each save says more than 150 characters
    assert os.read(run.process.stderr.fileno(), 4096)  # room for a page, and much more is held
    seen = run.steps
    run.wait_until(lambda: run.steps >= seen + 20)
    run.process.send_signal(signal.SIGTERM)
    run.wait_until(lambda: f"step-{run.steps:06d}" in run.checkpoints)
    said = run.end(expect=130)
    assert "saving " in said and "SIGTERM" not in said  # which found the pipe full


def test_a_pipe_that_nobody_reads_saves_and_exits_130(box):
    run = box.start("unread", train__steps=MANY)
    run.wait_until(lambda: run.steps >= 2)
    run.process.stdout.close()
    said = run.process.stderr.read()
    run.process.wait(timeout=120)
    assert run.process.returncode == 130, said
    assert "standard output was closed: finishing the steps" in said
    assert is_saved(run)


def test_a_signal_that_the_program_was_started_to_ignore_is_ignored(box):
    job = box.job("ignoring", train__steps=3)
    file = box.folder / "ignoring.yaml"
    file.write_text(json.dumps(job))
    command = f"trap '' HUP; {FERRY} train {file} & child=$!; while kill -HUP $child; do sleep 0.1; done; wait $child"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_a_signal_before_the_first_step_ends_the_program_and_its_children(box, tmp_path):
    model = shutil.copytree(box.model, tmp_path / "base")
    add_tokenizer(model)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "words"}\n')
    run = box.start("untokenised", model=str(model), data__train=str(rows))

    def tokenisers() -> list[int]:
        tree = [pid for pid in descendants(run.process.pid) if not has_ended(pid)]
        return [pid for pid in tree if b"tokenize" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    run.wait_until(tokenisers)
    children = descendants(run.process.pid)
    os.kill(tokenisers()[0], signal.SIGSTOP)  # it would never end by itself
    run.process.send_signal(signal.SIGTERM)
    run.end(expect=130)
    wait_for_ends(children)


def test_a_standard_output_that_is_closed_leaves_the_log_alone(box):
    job = box.job("closed", train__steps=3)
    file = box.folder / "closed.yaml"
    file.write_text(json.dumps(job))
    subprocess.run(["sh", "-c", f"exec {FERRY} train {file} >&-"], check=True, timeout=120, capture_output=True)
    lines = (Path(job["out"]) / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]


def test_an_answer_that_cannot_be_written_is_no_success(box):
    file = box.folder / "unwritten.yaml"
    file.write_text(json.dumps(box.job("unwritten", plan={"profile": "estimate"})))
    with open("/dev/full", "w") as full:
        done = subprocess.run([FERRY, "plan", file, "--json"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert "cannot write to standard output" in done.stderr
