"""Makes samples on several processes, in the order of the rows, with a few groups of rows in memory at a time."""

import ctypes
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from ferry_tools.records import Record
from ferry_tools.samples import RowRules, Samples

ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 1 << 20  # of lines
MOST_PROCESSES = 16  # beyond, reading and writing, which one process does, take longest
PR_SET_PDEATHSIG = 1

_rules: RowRules  # of a worker, who gets it when it is forked


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


def start_worker(rules: RowRules, parent: int) -> None:
    """A worker leaves Ctrl-C to its parent, and ends when that does."""
    global _rules
    _rules = rules
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def work(group: list[Record]) -> Samples:
    return _rules.samples_of(group)


def start(rules: RowRules, processes: int, group: list[Record]) -> tuple[ProcessPoolExecutor, Future]:
    """Workers, the first of which has a group already. Raises OSError, with none left, when one cannot be started."""
    pool = ProcessPoolExecutor(
        processes, multiprocessing.get_context("fork"), initializer=start_worker, initargs=(rules, os.getpid())
    )
    try:
        return pool, pool.submit(work, group)
    except (OSError, RuntimeError) as error:  # a process that is refused, or the thread that hands out groups
        for worker in multiprocessing.active_children():
            worker.kill()
            worker.join()
        raise OSError(
            f"cannot start {processes} processes to tokenise with: {getattr(error, 'strerror', None) or error}; see the "
            "limits of processes and memory (ulimit -u, -v, -d) and of the control group (pids.max)"
        ) from None


def samples_in_order(rules: RowRules, records: Iterable[Record], processes: int) -> Iterator[Samples]:
    """The samples of all records. Raises OSError when a worker cannot be started, or is killed.

    The first group is made here: a small file needs no workers, and what loading and the first row cost is paid
    before workers are forked.
    """
    groups = groups_of(records)
    for first in groups:
        yield rules.samples_of(first)
        break
    if processes < 2:
        yield from map(rules.samples_of, groups)
        return
    second = next(groups, None)
    if second is None:
        return
    pool, first_made = start(rules, processes, second)
    try:
        waiting = deque([first_made])
        for group in groups:
            waiting.append(pool.submit(work, group))
            if len(waiting) > 2 * processes:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise OSError("a process that tokenised was killed; by the kernel when memory is short") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
