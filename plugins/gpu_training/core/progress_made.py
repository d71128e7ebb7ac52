"""What a pod has reached so far, and with it, which of its lines and bars tell of progress: the stall clock waits for
that, and a program that hangs may go on printing what it has printed before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeVar

from gpu_training.contract import Progress
from gpu_training.core.documents import child
from gpu_training.core.progress_bar import Bar
from gpu_training.core.progress_document import count, finite

MOST_BEGINNINGS: Final = 8
"""First steps of a pod that are told apart."""
MOST_BARS: Final = 32
"""Bars of a pod that are told apart."""
_MOST_COUNTS: Final = 16
"""Last counts of a bar that are known again: as many processes may draw it, each at its own."""
_LATER_S: Final = 2.0
"""A bar that began so much later is drawn anew. Bars tell whole seconds, and some time passes until one is heard."""
_LONGEST_NAME: Final = 64
_LONGEST_COUNT: Final = 40
_COUNT: Final = re.compile(r"\d{1,19}", re.ASCII)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What is known of a bar.

    :param since: when it began the last time, in seconds since 1970, by what it says of itself.
    :param counts: what it counted last since then, the newest last.
    """

    since: float
    counts: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Reached:
    """What one pod has reached. Memory is bounded: what was not said for long is forgotten, and is new then.

    :param steps: first step of a beginning, 0 where none was said -> greatest step reported since.
    :param bars: by name; those drawn last stand last.
    """

    steps: dict[int, int] = field(default_factory=dict)
    bars: dict[str, Drawn] = field(default_factory=dict)

    def by_line(self, progress: Progress, checkpoint: int | None) -> bool:
        """Take in a progress line, and give whether it tells of progress: a step greater than any before it of the same
        beginning, a checkpoint greater than any before it, or a beginning, which another first step tells.

        Less is none: of two processes that print the steps at which they hang, each says another than the other.

        :param progress: with what earlier lines said that this one leaves out.
        :param checkpoint: greatest that the pod had reported before.
        """
        begin, saved = progress.first_step or 0, progress.checkpoint_step
        before = self.steps.get(begin)
        put(self.steps, begin, progress.step if before is None else max(before, progress.step), MOST_BEGINNINGS)
        is_saved = saved is not None and (checkpoint is None or saved > checkpoint)
        return before is None or progress.step > before or is_saved

    def by_bar(self, bar: Bar, at: float) -> bool:
        """Take in a drawing of a bar, and give whether it tells of progress: a count that was not among its last ones,
        or, of a bar that has begun anew, another one than the last.

        :param at: when it was drawn, in seconds since 1970.
        """
        since, before = at - bar.elapsed, self.bars.get(bar.name)
        if before is None or since > before.since + _LATER_S:
            moved = before is None or bar.count != before.counts[-1]
            drawn = Drawn(since=since, counts=(bar.count,))
        else:
            moved = bar.count not in before.counts
            others = [each for each in before.counts if each != bar.count]
            drawn = Drawn(since=before.since, counts=(*others[1 - _MOST_COUNTS :], bar.count))
        put(self.bars, bar.name, drawn, MOST_BARS)
        return moved


def plain_reached(reached: Reached) -> dict[str, Any]:
    """Give it as plain JSON data."""
    return {
        "reached": {str(begin): step for begin, step in reached.steps.items()},
        "bars": {name: [drawn.since, *drawn.counts] for name, drawn in reached.bars.items()},
    }


def reached_of(body: Mapping[str, Any]) -> Reached:
    """Give what :func:`plain_reached` wrote; what is not of its kind is not known."""
    steps = child(body, "reached")
    begins = [each for each in islice(steps, MOST_BEGINNINGS) if isinstance(each, str) and _COUNT.fullmatch(each)]
    bars = {name: _drawn(drawn) for name, drawn in islice(child(body, "bars").items(), MOST_BARS)}
    return Reached(
        steps={int(begin): step for begin in begins if (step := count(steps, begin)) is not None},
        bars={name: drawn for name, drawn in bars.items() if drawn is not None and len(name) <= _LONGEST_NAME},
    )


def _drawn(document: object) -> Drawn | None:
    if not isinstance(document, list) or not 2 <= len(document) <= 1 + _MOST_COUNTS:
        return None
    since, counts = finite(document[0]), document[1:]
    if since is None or not all(isinstance(each, str) and len(each) <= _LONGEST_COUNT for each in counts):
        return None
    return Drawn(since=since, counts=tuple(counts))


def put(kept: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
    """Keep a value as the newest, and forget the oldest of too many."""
    kept.pop(key, None)
    kept[key] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
