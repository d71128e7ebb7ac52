"""Progress on a terminal as one line that changes, elsewhere as a line now and then."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

QUIET_S = 15.0
"""Seconds between two lines about the same subject where the output is no terminal."""


class Display:
    """Shows `subject: state` texts, which may come as often as every second; what precedes the colon is the subject.

    On a terminal the texts of a subject replace one another. Elsewhere texts that differ in their numbers only are
    printed once each :data:`QUIET_S` seconds, so that a log stays readable.

    :param clock: gives seconds, only their differences matter.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._subject: str | None = None
        self._shape: str | None = None
        self._printed = 0.0

    def __call__(self, text: str) -> None:
        """Show a text."""
        subject, shape = text.partition(":")[0], re.sub(r"\d+", "#", text)
        if self._stream.isatty():
            width = shutil.get_terminal_size().columns
            opening = "" if self._subject in (None, subject) else "\n"
            self._stream.write(f"{opening}\r\x1b[K{text[: width - 1]}")
        elif shape != self._shape or self._clock() - self._printed >= QUIET_S:
            self._stream.write(f"{text}\n")
            self._printed = self._clock()
        self._subject, self._shape = subject, shape
        self._stream.flush()

    def close(self) -> None:
        """Leave the changing line, so that what is printed next begins a line of its own."""
        if self._subject is not None and self._stream.isatty():
            self._stream.write("\n")
            self._stream.flush()
        self._subject = None


def format_duration(seconds: float) -> str:
    """Write a duration as people read it: `42 s`, `3 min 05 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
