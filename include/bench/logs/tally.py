"""Counts the lines that arrive, and finds those that were lost, came twice or are not what was said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from bench.logs.writer import DIGITS, FIRST_DIGIT, TEXT

_said = itemgetter(slice(FIRST_DIGIT, None))


class Tally:
    """Of one container's lines, from the first one on.

    :param lines: how many it says.
    :ivar size: characters that arrived, time stamps and line ends included.
    :ivar lost: lines that never came, so far as a later one tells.
    :ivar repeated: lines that came though they, or a later one, had been there.
    :ivar foreign: lines that the container never said.
    """

    def __init__(self, lines: int) -> None:
        self._lines = lines
        self._next = 0
        self.arrived = self.size = self.lost = self.repeated = self.foreign = 0

    @property
    def is_complete(self) -> bool:
        """Whether the last line is there."""
        return self._next >= self._lines

    @property
    def missing(self) -> int:
        """Lines that are not there: lost, or not come yet."""
        return self.lost + self._lines - self._next

    def take(self, lines: Sequence[str]) -> None:
        """Take in lines, each behind its time stamp."""
        self.arrived += len(lines)
        self.size += sum(map(len, lines)) + len(lines)
        end = self._next + len(lines)
        # All at once, for it is the follower's time that is taken.
        if end <= self._lines and list(map(_said, lines)) == list(map(TEXT.__mod__, range(self._next, end))):
            self._next = end
            return
        for line in lines:
            self._take_one(line)

    def _take_one(self, line: str) -> None:
        text = _said(line)
        digits = text[:DIGITS]
        number = int(digits) if digits.isascii() and digits.isdigit() else -1
        if not 0 <= number < self._lines or text != TEXT % number:
            self.foreign += 1
        elif number < self._next:
            self.repeated += 1
        else:
            self.lost += number - self._next
            self._next = number + 1
