"""A task log that remembers its records, and a clock with the calls that wait for it."""

from __future__ import annotations

from collections.abc import Callable


class Records:
    """Remembers messages and the field `loc` of each."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.locs: list[str | None] = []

    def info(self, message: str, /, *args: object, loc: str | None = None) -> None:
        self.lines.append(message % args)
        self.locs.append(loc)

    debug = warning = info


class Clock:
    """Stands still, and moves on when it is told to.

    :ivar each_turn: is called after each call that waited.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.each_turn: Callable[[], object] = lambda: None
        self._waiting: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self._waiting.append((self.now + seconds, call))

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    def pass_by(self, seconds: float) -> None:
        """Let time pass, and what waits for it happen at its moment."""
        until = self.now + seconds
        while due := [each for each in self._waiting if each[0] <= until]:
            first = min(due, key=lambda each: each[0])
            self._waiting.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
            self.each_turn()
        self.now = until
