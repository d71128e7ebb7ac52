"""Lines of containers' logs, as they come from the kubelet: each behind the moment at which it was said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

Moment = tuple[int, int]
"""Seconds since 1970, and nanoseconds."""

# As the kubelet writes a moment before a line; https://www.rfc-editor.org/rfc/rfc3339
_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a log was read: the moment of the last line, and how many lines in a row bore it.

    The API resumes a log by whole seconds only, so a moment alone would not tell what was read.

    :param latest: the latest moment up to there, where the node's clock went back since; None where it did not. Without
        it lines may come twice after a clock that went back.
    """

    moment: Moment | None = None
    count: int = 0
    latest: Moment | None = None


START: Final = Position()
"""Nothing was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """News of one container's log.

    :param pod: name of the pod.
    :param lines: whole lines in order: each the kubelet's time stamp, a blank, and what a terminal would show of the
        line in the end, of bounded length. A line without a stamp begins with the blank.
    :param frame: what a terminal shows now of a line that has no end yet, such as a progress bar; None for nothing new.
    :param live: whether this was said just now, whatever the node's clock says; False while what was said before is
        caught up with.
    :param now: seconds since 1970, by the API server's clock.
    """

    pod: str
    container: str
    lines: Sequence[str] = ()
    frame: str | None = None
    live: bool = False
    now: float = 0.0


def stamp_of(line: str) -> Moment | None:
    """Give the moment at which a batch's line was said; None for a line without a stamp."""
    found = _STAMP.match(line)
    if found is None:
        return None
    second = _second(found[1], found[3])
    return None if second is None else (second, int((found[2] or "0").ljust(9, "0")))


def text_of(line: str) -> str:
    """Give what was said in a batch's line."""
    return line.partition(" ")[2]


# Lines in a row share their second; what is neither date nor time can not fill this.
@lru_cache(maxsize=256)
def _second(local: str, zone: str) -> int | None:
    try:
        # What is in no year of UTC can not be written again.
        return int(datetime.fromisoformat(local + zone.replace("Z", "+00:00")).astimezone(UTC).timestamp())
    except (ValueError, OverflowError):
        return None


class Reading:
    """Goes through one log, and gives each line once, though it may be offered again from an earlier line on.

    A resumed log begins at a whole second, and is in its file's order. What was read of it is passed over up to the
    line at which the reading had stopped, or up to a line that is later than all that was read: the file that held the
    others may be gone. Equal moments are taken to stand in a row; a clock that went back hits no nanosecond twice.

    :param position: where an earlier reading had stopped.
    """

    def __init__(self, position: Position = START) -> None:
        self._moment = position.moment
        self._count = position.count
        self._latest = position.latest if position.latest is not None else position.moment
        self._skip = 0
        self._is_skipping = False
        self._lost_its_place = False
        self.resume()

    @classmethod
    def going_on(cls, position: Position) -> Reading:
        """Give a reading to which only what follows a position is offered."""
        reading = cls(position)
        reading._is_skipping = False
        return reading

    @classmethod
    def offered_from(cls, start: Position, position: Position) -> Reading:
        """Give a reading to which is offered what follows a start that is not after the position, and nothing else."""
        reading = cls(position)
        if start.moment == position.moment:
            # Of the lines of that moment, those up to the start do not come.
            reading._skip = max(0, position.count - start.count)
            reading._is_skipping = reading._skip > 0
        return reading

    @property
    def position(self) -> Position:
        """How far the log is given."""
        is_later = self._latest != self._moment
        return Position(moment=self._moment, count=self._count, latest=self._latest if is_later else None)

    @property
    def since(self) -> str | None:
        """The `sinceTime` from which the log is to be offered again; None for its start."""
        if self._moment is None:
            return None
        return datetime.fromtimestamp(self._moment[0], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def resume(self) -> None:
        """Begin to pass over what was given: the log is offered again, from `since` on or from any line before."""
        self._is_skipping = self._moment is not None
        self._skip = self._count
        self._lost_its_place = False

    @property
    def lost_its_place(self) -> bool:
        """Whether the line at which the reading had stopped was not offered again: what followed it may be lost."""
        return self._lost_its_place

    def new_lines(self, lines: Sequence[str]) -> Sequence[str]:
        """Give those of the next lines that were not given before; they count as given now."""
        begin = self._first_new(lines) if self._is_skipping else 0
        fresh = lines[begin:] if begin else lines
        if fresh:
            self._go_on(fresh)
        return fresh

    def last_lines(self, lines: Sequence[str], most: int) -> tuple[Sequence[str], bool]:
        """Give those of a log's last lines that were not given before, and whether a part of the log before them may
        be left out; they count as given now. Where the lines begin within several of the moment that was reached, some
        that were given may come again: how many of them stand before is not known.

        :param lines: one more than `most`, where the log has as many.
        """
        said_then = [at for at, line in enumerate(lines) if self._moment is not None and stamp_of(line) == self._moment]
        if said_then[:1] == [0] and len(lines) > most:
            fresh, has_gap = lines[-most:], True
        elif said_then:
            fresh, has_gap = lines[said_then[: max(1, self._count)][-1] + 1 :], False
        else:
            fresh, has_gap = lines[-most:], self._moment is not None or len(lines) > most
        self._is_skipping = False
        if fresh:
            self._go_on(fresh)
        return fresh, has_gap

    def _first_new(self, lines: Sequence[str]) -> int:
        for index, line in enumerate(lines):
            moment = stamp_of(line)
            if moment is None or self._moment is None or self._latest is None:
                continue
            if moment == self._moment and self._skip > 0:
                self._skip -= 1
                if self._skip == 0:
                    self._is_skipping = False
                    return index + 1
            elif moment > self._latest or moment == self._moment:
                self._is_skipping, self._lost_its_place = False, self._skip > 0
                return index
        return len(lines)

    def _go_on(self, lines: Sequence[str]) -> None:
        last = next((at for at in reversed(range(len(lines))) if stamp_of(lines[at]) is not None), None)
        if last is None:
            return
        moment, stamp = stamp_of(lines[last]), lines[last].partition(" ")[0] + " "
        first = last
        while first > 0 and lines[first - 1].startswith((stamp, " ")):
            first -= 1
        said = sum(1 for line in lines[first : last + 1] if line.startswith(stamp))
        self._count = said + (self._count if first == 0 and moment == self._moment else 0)
        self._moment = moment
        # Stamps of one node sort as texts; where they do not, as when its zone changes, a moment is too early at worst.
        known = [each for each in (self._latest, moment, stamp_of(max(lines))) if each is not None]
        self._latest = max(known)
