"""A drive of any size: a run is refused at its start, or has room to its end."""

import json
import re
import subprocess

import pytest
from boxes import FERRY

MOUNTED = 'mount -t tmpfs -o "size=$1" tmpfs "$2" && shift 2 && exec "$@"'
IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", MOUNTED, "sh"]
KEEP, STEPS = 2, 6


def on_a_drive(size: int, folder, *command) -> subprocess.CompletedProcess:
    """Runs a command with a drive of `size` bytes, its own, at `folder`."""
    words = [*IN_A_NAMESPACE, str(size), str(folder), *map(str, command)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300)


@pytest.fixture
def job(box, tmp_path):
    (tmp_path / "drive").mkdir()
    if on_a_drive(1 << 20, tmp_path / "drive", "true").returncode != 0:
        pytest.skip("a drive of a given size needs unshare and user namespaces")
    changes = {"train__steps": STEPS, "train__save_every": 1, "train__keep": KEEP, "plan__profile": "estimate"}
    file = tmp_path / "job.yaml"
    file.write_text(json.dumps(box.job("", out=str(tmp_path / "drive" / "out"), **changes)))
    return file


# A drive that fills up under a run, which is then stopped; what filled it goes while the last save is tried.
FILLED = """
"$1" train "$2" 2> "$3" & run=$!
until [ -s "$4/out/log.jsonl" ]; do kill -0 $run || exit 99; sleep 0.1; done
cat /dev/zero > "$4/filler" 2> /dev/null
kill -TERM $run
until grep -q "next try is in 2 s" "$3"; do kill -0 $run || exit 99; sleep 0.1; done
rm "$4/filler"
wait $run
code=$?
ls "$4/out/checkpoints"
exit $code
"""


def test_a_drive_that_is_full_at_the_end_of_a_run_is_waited_for(box, job, tmp_path):
    job.write_text(json.dumps(box.job("", out=str(tmp_path / "drive" / "out"), train__steps=100_000)))
    said, drive = tmp_path / "said", tmp_path / "drive"
    done = on_a_drive(32 << 20, drive, "sh", "-c", FILLED, "sh", FERRY, job, said, drive)
    assert done.returncode == 130, said.read_text()
    assert re.search(r"out/checkpoints lacks [\d.]+ MiB: a checkpoint takes [\d.]+ MiB, 0 B are free", said.read_text())
    assert re.fullmatch(r"step-\d+", done.stdout.splitlines()[-1])


def test_a_drive_with_room_for_the_checkpoints_that_are_kept_and_one_is_enough(box, job, tmp_path):
    said = on_a_drive(1 << 20, tmp_path / "drive", FERRY, "train", job).stderr
    need = int(re.search(rf"{KEEP + 1} more checkpoints of .* need (\d+) bytes", said)[1])
    ends = []
    for hundredths in (40, 70, 95, 99, 101, 102, 103, 105, 110, 120, 140, 200):
        done = on_a_drive(need * hundredths // 100, tmp_path / "drive", FERRY, "train", job)
        ends.append(done.returncode)
        assert done.returncode in (0, 3), done.stderr
        if done.returncode == 3:
            assert f"need {need} bytes" in done.stderr and "step     1/" not in done.stdout, done.stderr
        else:
            assert f"step {STEPS:5}/" in done.stdout and "is not saved" not in done.stderr, done.stderr
    assert ends == [3] * 4 + [0] * 8
