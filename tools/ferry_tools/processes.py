"""Does work on several processes, its results in order, with a few pieces of it in memory at a time."""

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from ferry_tools.records import Record

ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 1 << 20  # of lines
MOST_PROCESSES = 16  # beyond, reading and writing, which one process does, take longest
PR_SET_PDEATHSIG = 1

Part = TypeVar("Part")
Result = TypeVar("Result")

_work: Callable  # of a worker, who gets it when it is forked


def cores() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def groups_of(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records in groups that are worth a message between processes."""
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.value) if isinstance(record.value, bytes) else 0
        if len(group) == ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


def start_worker(work: Callable, parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when that does."""
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def work_on(part: Part) -> Result:
    return _work(part)


def start(work: Callable[[Part], Result], processes: int, part: Part) -> tuple[ProcessPoolExecutor, Future]:
    """Workers, the first of which has a part already. Raises OSError, with none left, when one cannot be started."""
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), initializer=start_worker, initargs=(work, os.getpid())
    )
    try:
        return pool, pool.submit(work_on, part)
    except (OSError, RuntimeError) as error:  # a process that is refused, or the thread that hands out parts
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        raise OSError(
            f"cannot start {processes} processes to tokenise with: {getattr(error, 'strerror', None) or error}; see the "
            "limits of processes and memory (ulimit -u, -v, -d) and of the control group (pids.max)"
        ) from None


def results_in_order(work: Callable[[Part], Result], parts: Iterable[Part], processes: int) -> Iterator[Result]:
    """What `work` makes of each part. Raises OSError when a worker cannot be started, or is killed.

    The first part is worked on here: little work needs no workers, and what loading and the first part cost is paid
    before workers are forked.
    """
    parts = iter(parts)
    for first in parts:
        yield work(first)
        break
    if processes < 2:
        yield from map(work, parts)
        return
    second = next(parts, None)
    if second is None:
        return
    pool, first_made = start(work, processes, second)
    try:
        waiting = deque([first_made])
        for part in parts:
            waiting.append(pool.submit(work_on, part))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise OSError("a process that tokenised was killed; by the kernel when memory is short") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
