"""A control group of the caller's own, version 1 or 2: a hard limit on the memory of the processes in it, page cache included."""

import os
import uuid
from dataclasses import dataclass
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Group:
    """For one process and its children."""

    folder: Path
    unified: bool

    def limit(self, mib: int) -> None:
        (self.folder / ("memory.max" if self.unified else "memory.limit_in_bytes")).write_text(str(mib << 20))

    def enter(self) -> None:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self) -> int:
        """The most bytes that were counted; of version 2 from Linux 5.19 on."""
        return int((self.folder / ("memory.peak" if self.unified else "memory.max_usage_in_bytes")).read_text())

    def killed(self) -> int:
        events = (self.folder / ("memory.events" if self.unified else "memory.oom_control")).read_text()
        return int(dict(line.split() for line in events.splitlines()).get("oom_kill", 0))


def make_group() -> Group:
    """Throws OSError where this process may not make one."""
    unified = (MOUNT / "cgroup.controllers").exists()
    own = ""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == ("" if unified else "memory"):
            own = path.strip("/")
    top = MOUNT if unified else MOUNT / "memory"
    folder = (top / own if (top / own).is_dir() else top) / f"ferry-{uuid.uuid4().hex[:8]}"
    folder.mkdir()
    group = Group(folder, unified)
    try:
        group.limit(1 << 20)
    except OSError:
        folder.rmdir()
        raise
    return group
