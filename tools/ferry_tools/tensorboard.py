"""`tensorboard`: follows a run's log.jsonl and writes event files that TensorBoard shows, while the run goes on."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

TAGS = {
    "loss": "train/loss",
    "grad_norm": "train/grad_norm",
    "lr": "train/lr",
    "tokens_per_second": "train/tokens_per_second",
    "stall": "train/stall",
    "eval_loss": "eval/loss",
}
POLL_SECONDS = 0.5


class Feed:
    """The steps of a run that begins behind step `after`, as events in `folder`, which is made for the first one."""

    def __init__(self, folder: Path, after: int):
        self.folder = folder
        self.after = after
        self.writer: EventFileWriter | None = None

    def add(self, **event) -> None:
        if self.writer is None:
            self.writer = EventFileWriter(str(self.folder), flush_secs=1)
            if self.after > 0:  # what an earlier part of the run wrote of later steps is discarded
                self.add(step=self.after + 1, session_log=SessionLog(status=SessionLog.START))
        self.writer.add_event(Event(wall_time=time.time(), **event))

    def take(self, line: str) -> None:
        """Writes a line of the log; the lines that a resumed run has kept are written already."""
        fields = json.loads(line)
        if fields["step"] <= self.after:
            return
        values = [Summary.Value(tag=tag, simple_value=fields[key]) for key, tag in TAGS.items() if key in fields]
        self.add(step=fields["step"], summary=Summary(value=values))

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()


def follow(log: Path, earlier: int, feed: Feed, ended: Callable[[], bool]) -> None:
    """Feeds every whole line of `log` as it comes, until nothing is left after `ended` has said so.

    `earlier` is the inode of the file that stands there before the run begins its own; 0: there is none.
    """
    file, rest = None, ""
    last = False
    while True:
        if file is None and log.exists() and log.stat().st_ino != earlier:
            file = log.open()
        if file is not None:
            *lines, rest = (rest + file.read()).split("\n")
            for line in lines:
                feed.take(line)
        if last:
            break
        last = ended()
    if file is not None:
        file.close()


def stdin_ends() -> bool:
    """Waits a moment; true when whoever started this program has closed its standard input, or is gone."""
    ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return bool(ready) and os.read(sys.stdin.fileno(), 1) == b""


def write_events(log: Path, folder: Path, after: int, earlier: int) -> None:
    """Follows the run of `log` until standard input ends. Ctrl-C is for the run, which then ends this."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    feed = Feed(folder, after)
    follow(log, earlier, feed, stdin_ends)
    feed.close()
