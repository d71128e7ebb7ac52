"""A training's share of the task log: what is above it is left out, counted and said, and of each log the end is kept.

A flood would fill the disk that all task logs share, and keep the triggerer from everything else. What a program says
last, such as the traceback of its end, is what a person looks for: it is kept back and told when the flood is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gpu_training.core.log_allowance import Allowance, Limits, size_of
from gpu_training.core.log_lines import START, Position, Reading, text_of
from gpu_training.core.log_marks import MOST_LOGS, LogKey

QUIET_S: Final = 1.0
"""A log that said nothing for so long has paused: its end is told, where there is room for that."""
_NONE: Final[Mapping[LogKey, Position]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Line:
    """A line to tell.

    :param position: how far its log is told with it.
    """

    key: LogKey
    text: str
    position: Position


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Lines that are not told, to be said in place of them.

    :param lines: how many.
    :param size: bytes of their text.
    :param position: how far its log is done with when that is said.
    """

    key: LogKey
    lines: int
    size: int
    position: Position


@dataclass(slots=True)
class _Log:
    """One container's log: `reading` passes over what earlier task logs hold, `seen` is how far it was taken in, `done`
    how far it is told or left out, and `safe` how far it was told when lines began to be held."""

    key: LogKey
    reading: Reading
    done: Reading
    safe: Position
    seen: Position
    held: deque[str] = field(default_factory=deque)
    held_size: int = 0
    left_out: int = 0
    left_out_size: int = 0
    last_at: float = 0.0


class LogShare:
    """Decides which lines of a training's logs are told now. Memory is bounded; moments are of any monotonic clock.

    :param told: pod's and container's name -> how far earlier task logs hold that log; those lines are no news.
    :param now: seconds.
    :param starts: from where the logs are offered; those that are not named are from their first line on.
    """

    def __init__(
        self,
        limits: Limits,
        told: Mapping[LogKey, Position] = _NONE,
        *,
        now: float = 0.0,
        starts: Mapping[LogKey, Position] = _NONE,
    ) -> None:
        self._limits = limits
        self._starts = dict(starts)
        self._told = dict(told)
        self._logs: dict[LogKey, _Log] = {}
        self._held: dict[LogKey, _Log] = {}
        self._allowance = Allowance(limits, now)

    @property
    def holds_back(self) -> bool:
        """Whether lines are kept back: :meth:`release` is to be called every now and then."""
        return bool(self._held)

    def holds_back_of(self, key: LogKey) -> bool:
        """Whether lines of one log are kept back."""
        return key in self._held

    def position(self, key: LogKey) -> Position:
        """Give how far a log is told, or said to be left out."""
        log = self._logs.get(key)
        if log is None:
            return self._told.get(key, START)
        return log.safe if log.held else log.done.position

    def news(self, key: LogKey, lines: Sequence[str]) -> Sequence[str]:
        """Give those of a log's next lines that no task log holds yet: its last ones."""
        return self._log(key).reading.new_lines(lines)

    def take(self, key: LogKey, news: Sequence[str], left: Sequence[str], now: float) -> list[Line | LeftOut]:
        """Take in news of a log, and give what is to be told now, in this order.

        :param news: as :meth:`news` gave them.
        :param left: those of them that are for the task log: the same objects, in the same order.
        """
        self._allowance.refill(now)
        log = self._log(key)
        told = self._release(log, now) if log.held else []
        log.seen = log.reading.position
        if left:
            log.last_at = now
        if log.held:
            self._hold(log, left)
        else:
            told += self._tell(log, news, left)
        return told

    def _tell(self, log: _Log, news: Sequence[str], left: Sequence[str]) -> Iterator[Line]:
        """Give the lines there is room for, and hold the others."""
        room, begin = self._allowance.take(left), 0
        for line in left[:room]:
            end = _index(news, line, begin) + 1
            log.done.new_lines(news[begin:end])
            yield Line(log.key, text_of(line), log.done.position)
            begin = end
        if room == len(left):
            log.done.new_lines(news[begin:])
        else:
            log.safe = log.done.position
            self._hold(log, left[room:])

    def spend(self, lines: int, size: int) -> None:
        """Count what is written beside the lines, such as whose they are; it comes out of the same share.

        :param size: bytes.
        """
        self._allowance.spend(lines, size)

    @property
    def held_back(self) -> tuple[LogKey, ...]:
        """Logs of which lines are kept back."""
        return tuple(self._held)

    def release(self, now: float, *, at_once: bool = False) -> list[Line | LeftOut]:
        """Give what was kept back and may be told now.

        :param at_once: whatever the limits say: there may be no later.
        """
        return [each for key in self.held_back for each in self.release_of(key, now, at_once=at_once)]

    def release_of(self, key: LogKey, now: float, *, at_once: bool = False) -> list[Line | LeftOut]:
        """Give what was kept back of one log and may be told now."""
        self._allowance.refill(now)
        log = self._held.get(key)
        return self._release(log, now, at_once=at_once) if log is not None else []

    def _log(self, key: LogKey) -> _Log:
        log = self._logs.get(key)
        if log is None:
            position = self._told.pop(key, START)
            reading = Reading.offered_from(self._starts.pop(key, START), position)
            log = self._logs[key] = _Log(key, reading, Reading.going_on(position), position, position)
            if len(self._logs) > MOST_LOGS:
                idle = next((each for each in self._logs if each not in self._held and each != key), key)
                del self._logs[idle]
        return log

    def _release(self, log: _Log, now: float, *, at_once: bool = False) -> list[Line | LeftOut]:
        is_over = log.left_out == 0 or now >= log.last_at + QUIET_S or self._allowance.is_rested
        if not at_once and not (is_over and self._allowance.has_room_at_best(len(log.held), log.held_size)):
            return []
        told: list[Line | LeftOut] = []
        if log.left_out:
            told.append(LeftOut(log.key, log.left_out, log.left_out_size, log.done.position))
            log.left_out = log.left_out_size = 0
        held = list(log.held)
        if at_once:
            self._allowance.spend(len(held), log.held_size)
        else:
            held = held[: self._allowance.take_some(held)]
        for line in held:
            log.done.new_lines((line,))
            told.append(Line(log.key, text_of(line), log.done.position))
            log.held.popleft()
        log.held_size -= size_of(held)
        log.safe = log.done.position
        if not log.held:
            # What followed and was not for the task log is done with, too.
            log.done = Reading.going_on(log.seen)
            del self._held[log.key]
        return told

    def _hold(self, log: _Log, lines: Sequence[str]) -> None:
        """Keep the last lines, and count the others as left out."""
        if not lines:
            return
        self._held[log.key] = log
        over: list[str] = []
        most = self._limits.tail_lines
        if len(lines) >= most:
            over = [*log.held, *lines[: len(lines) - most]]
            log.held = deque(lines[len(lines) - most :])
            log.held_size = size_of(log.held)
        else:
            log.held.extend(lines)
            log.held_size += size_of(lines)
        while len(log.held) > most or (log.held_size > self._limits.tail_bytes and len(log.held) > 1):
            over.append(log.held.popleft())
            log.held_size -= size_of(over[-1:])
        if over:
            log.left_out += len(over)
            log.left_out_size += size_of(over)
            log.done.new_lines(over)


def _index(lines: Sequence[str], line: str, begin: int) -> int:
    """Give where a line, this very object, stands."""
    while lines[begin] is not line:
        begin += 1
    return begin
