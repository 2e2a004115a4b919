"""Tells on standard error how far tokenising is: one line rewritten on a terminal, else one from time to time."""

import os
import sys
import time
from typing import TextIO

TERMINAL_SECONDS = 0.2  # between looks
PLAIN_SECONDS = 10.0


def seconds_text(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    return f"{round(seconds)} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Progress:
    """Of one file. A terminal shows its name at once, for libraries load for seconds; the first interval is told of
    when it is over."""

    def __init__(self, name: str, stream: TextIO | None = None, clock=time.monotonic) -> None:
        self.name = name
        self.stream = stream or sys.stderr
        self.clock = clock
        self.is_terminal = self.stream.isatty()
        self.begin = self.said = clock()
        self.rows = 0
        self.has_line = False  # on a terminal: a line that the next one replaces
        if self.is_terminal:
            self._say(f"tokenising {name}", ends=False)

    def add(self, rows: int, fraction: float) -> None:
        """`rows` more are done; `fraction` of the file has been read."""
        self.rows += rows
        now = self.clock()
        if now - self.said < (TERMINAL_SECONDS if self.is_terminal else PLAIN_SECONDS):
            return
        self.said = now
        taken = now - self.begin
        left = f", {seconds_text(taken / fraction - taken)} left" if fraction > 0 else ""
        self._say(f"tokenising {self.name}: {self._rate(taken)}, {fraction:.0%}{left}", ends=False)

    def done(self, tokens: int) -> None:
        taken = self.clock() - self.begin
        self._say(f"tokenised {self.name}: {self._rate(taken)}, {tokens:,} tokens in {seconds_text(taken)}", ends=True)

    def stop(self) -> None:
        """Ends the line on a terminal; an error follows."""
        if self.has_line:
            self._say("", ends=False)

    def _rate(self, taken: float) -> str:
        return f"{self.rows:,} rows" + (f", {self.rows / taken:,.0f} rows/s" if taken >= 1 else "")

    def _cut(self, text: str) -> str:
        """As much as a line of the terminal takes: one that wraps could not be rewritten."""
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError):  # it does not say
            return text
        return text if len(text) < columns or columns == 0 else text[: max(columns - 2, 0)] + "…"

    def _say(self, text: str, ends: bool) -> None:
        if self.is_terminal:
            self.stream.write(f"\r\033[K{text if ends else self._cut(text)}" + ("\n" if ends else ""))
        else:
            self.stream.write(text + "\n")
        self.has_line = self.is_terminal and not ends
        self.stream.flush()
