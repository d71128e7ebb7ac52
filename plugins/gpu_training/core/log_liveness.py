"""Whether a log tells what is said now, or still what was said before somebody listened, whatever its node's clock."""

from __future__ import annotations

from typing import Final

FAR_S: Final = 60.0
"""A line that was said so long ago, or so far in the future, is of the past, or its node's clock is wrong."""
PACE_S: Final = 2.0
"""By so much lines that are told as they are said may be late or early, beside what their node's clock is wrong by."""


class LogLiveness:
    """Follows what a log tells, and when it is open.

    What is said now is told at the pace of the clock: each line is behind by as much as the one before it, which is by
    how much the node's clock is wrong. The past is told at another pace: hours within a second, or one second's flood
    within minutes. So a log is live once it was open for a while, in one piece or many, without a line from far away
    that was behind by another time than the one before it. A log that is silent meanwhile has no more of the past.

    All moments are of one monotonic clock.

    :param catch_up_s: seconds for which it was open like that.
    :ivar deaf_s: seconds for which it was not open, after which it is caught up with anew.
    """

    def __init__(self, *, catch_up_s: float, deaf_s: float) -> None:
        self._catch_up_s = catch_up_s
        self.deaf_s = deaf_s
        self._behind: float | None = None
        self._counted_s = 0.0
        self._opened_at: float | None = None
        self._closed_at: float | None = None
        self._moved_at = 0.0

    def open(self, at: float) -> None:
        """Its stream is there."""
        if self._closed_at is None or self._is_deaf(at):
            self._begin(at)
        self._opened_at, self._closed_at = at, None

    def close(self, at: float, *, is_whole: bool) -> None:
        """Its stream is gone.

        :param is_whole: whether it ended as one does that was read to its end; else it broke.
        """
        if self._opened_at is None:
            return
        self._counted_s = self._counted(at)
        self._opened_at, self._closed_at = None, at
        if is_whole and at >= self._moved_at + self._catch_up_s:
            # Streams that end at once are open for no time, and tell all the same.
            self._counted_s = max(self._counted_s, self._catch_up_s)

    def tell(self, at: float, behind: float | None) -> None:
        """It told something new.

        :param behind: seconds from the moment that the newest line bears to now; None where none bears one.
        """
        if behind is None or abs(behind) <= FAR_S or self.is_live(at):
            return
        if self._behind is None or abs(behind - self._behind) > PACE_S:
            self._begin(at)
            self._behind = behind

    def is_live(self, at: float) -> bool:
        """Whether it tells what is said now; False again when it was not open for long."""
        return not self._is_deaf(at) and self._counted(at) >= self._catch_up_s

    def _is_deaf(self, at: float) -> bool:
        return self._closed_at is not None and at >= self._closed_at + self.deaf_s

    def _counted(self, at: float) -> float:
        return self._counted_s + (at - self._opened_at if self._opened_at is not None else 0.0)

    def _begin(self, at: float) -> None:
        self._behind, self._counted_s, self._moved_at = None, 0.0, at
        if self._opened_at is not None:
            self._opened_at = at
