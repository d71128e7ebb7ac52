"""Lines of containers' logs, as they come from the kubelet: each behind the moment at which it was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Moment = tuple[int, int]
"""Seconds since 1970, and nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a log was read: the moment of the last line, and how many lines in a row bore it.

    The API resumes a log by whole seconds only, so a moment alone would not tell what was read.
    """

    moment: Moment | None = None
    count: int = 0


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
