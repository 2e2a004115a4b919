"""When the kernel's memory killer takes the trainer, the process beside it says so."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import FERRY, ferry

LIMIT = 48 << 20  # bytes: torch alone needs more


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group with little memory. Skipped where this user may not make one."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        old = "memory" in controllers.split(",")
        if controllers and not old:
            continue
        top = Path("/sys/fs/cgroup") / ("memory" if old else "")
        folder = Path(f"{top}/{path}/ferry-test-{os.getpid()}")
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(LIMIT))
            yield folder
            return
        except OSError:
            continue
        finally:
            folder.rmdir()
    pytest.skip("no control group for memory can be made here")


def test_a_run_that_the_kernel_kills_says_what_it_held(box, group):
    file = box.folder / "killed.yaml"
    job = box.job("killed", train__steps=3)
    file.write_text(json.dumps(job))
    ferry("plan", str(file), "-o", str(box.folder / "killed.plan"))  # measures outside of the group
    join = f"echo $$ > {group}/cgroup.procs; exec {FERRY} train {file}"
    done = subprocess.run(["sh", "-c", join], capture_output=True, text=True, timeout=120)
    assert done.returncode == 3, done.stderr
    assert "killed by the kernel, which was short of memory: the run held" in done.stderr
    assert f"{group}/memory." in done.stderr
