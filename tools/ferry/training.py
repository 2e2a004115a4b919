"""A training run as an iterator of what happens."""

import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator

from ferry.program import Job, failure, job_file, program

LAST = ("finished", "does_not_fit", "error")  # no event follows them


class Run:
    """The events of `ferry train --events`, each a dict (docs/formats/cli.md), while the run goes on.

    Ends when the run is done; raises what kept it from that. A run that is left early, by `break` and
    `close()` or by an exception inside `with`, is interrupted as by Ctrl-C: it saves, so that
    `resume=True` goes on from there.
    """

    def __init__(self, job: Job, arguments: list[str]):
        self.finished: dict | None = None  # the last event of a run that came to its end
        self._events = self._follow(job, arguments)

    def __iter__(self) -> Iterator[dict]:
        return self

    def __next__(self) -> dict:
        return next(self._events)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Interrupts the run where it goes on still, and waits until it has saved."""
        self._events.close()

    def _follow(self, job: Job, arguments: list[str]) -> Iterator[dict]:
        last: dict = {}
        with job_file(job) as file, tempfile.TemporaryFile("w+", errors="replace") as said:
            command = [program(), "train", file, *arguments, "--events"]
            # In a session of its own, so that Ctrl-C in a terminal or a notebook comes to it once.
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                errors="surrogateescape",
                start_new_session=True,
            )
            try:
                for line in child.stdout:
                    if not line.endswith("\n"):  # it was killed while it wrote
                        break
                    last = json.loads(line)
                    if last["event"] == "finished":
                        self.finished = last
                    yield last
            finally:
                if last.get("event") not in LAST and child.poll() is None:
                    child.send_signal(signal.SIGTERM)  # SIGINT is ignored below `nohup python ... &`
                for _ in child.stdout:  # it may have more to say
                    pass
                code = child.wait()
            if code != 0:
                said.seek(0)
                raise failure(code, said.read(), last)
