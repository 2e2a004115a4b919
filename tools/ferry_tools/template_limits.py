"""Bounds on chat templates: they are code that came with a model, and ferry did not write it.

jinja2's sandbox keeps them from files and from Python itself; what remains is that they may write without end, take
all memory or never stop: `{{ 'a' * 6000000000 }}`.
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

MEMORY = 1 << 30  # bytes, beside what the process has
SECONDS = 10  # of this process's CPU time, for one conversation
CHARACTERS = 1 << 26  # of one rendered conversation


class BeyondLimits(Exception):
    """What a template does too much of."""


class TooSlow(BeyondLimits):
    """It takes more than SECONDS."""


def memory_taken() -> int:
    """Bytes of this process's address space."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def stop(_signal: int, _frame: object) -> None:
    raise TooSlow(f"it runs for more than {SECONDS} s")


@contextmanager
def limits() -> Iterator[None]:
    """Within it, memory and time are bounded; what goes beyond raises BeyondLimits.

    A computation that never comes back to Python (9 ** 9 ** 9) ends the process by SIGPROF.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_taken() + MEMORY
    if soft != resource.RLIM_INFINITY:
        most = min(soft, most)
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    signal.setitimer(signal.ITIMER_PROF, 2 * SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    try:
        yield
    except MemoryError:
        raise BeyondLimits(f"it takes more than {MEMORY >> 20} MiB of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGVTALRM, before)


def bounded(text: str) -> str:
    """`text`, rendered, when it is not too long and text at all. Raises BeyondLimits."""
    if len(text) > CHARACTERS:
        raise BeyondLimits(f"it writes {len(text)} characters; expected at most {CHARACTERS}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BeyondLimits("it writes half of a surrogate pair; expected text") from None
    return text
