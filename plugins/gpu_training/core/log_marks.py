"""How far a container's log was told, as one word in a record of the task log itself: record and mark are one write.

A task log is a file of JSON records, one a line. In JSON a quotation mark within a text is escaped, so that nothing
that a program prints can pass for a mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from gpu_training.core.log_lines import Moment, Position, stamp_of

LogKey = tuple[str, str]
"""Names of pod and container."""

MOST_LOGS: Final = 10_000
"""Logs of which marks are kept, those found last."""

_MARK: Final = re.compile(
    r"(?P<moment>[0-9TZ:.-]{20,40})(?:#(?P<count>[1-9]\d{0,9}))?(?:<(?P<latest>[0-9TZ:.-]{20,40}))?", re.ASCII
)
_FOUND: Final = re.compile(rb'"loc":"([a-z0-9.-]{1,253}) ([a-z0-9.-]{1,253}) ([0-9TZ:.<#-]{20,100})"')
_LOG: Final = re.compile(rb'"loc":"log ([0-9a-f]{8,32})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What earlier task logs of the same try hold.

    :param logs: ids of those that were found.
    :param positions: how far each container's log is told in them.
    """

    logs: frozenset[str] = frozenset()
    positions: Mapping[LogKey, Position] = field(default_factory=dict)


def mark_of(position: Position) -> str:
    """Give the word for a position, such as `2026-11-30T19:00:00.123456789Z#2`: the second line of that moment. Behind
    a `<` follows the latest moment, where the node's clock went back since. Empty for the start of a log."""
    if position.moment is None:
        return ""
    count = f"#{position.count}" if position.count != 1 else ""
    latest = f"<{_stamp(position.latest)}" if position.latest is not None else ""
    return f"{_stamp(position.moment)}{count}{latest}"


def position_of(mark: str) -> Position | None:
    """Give the position that :func:`mark_of` has put into a word; None for any other, as for a moment in no year that
    it could write."""
    found = _MARK.fullmatch(mark)
    if found is None:
        return None
    moment = stamp_of(found["moment"] + " ")
    latest = stamp_of(found["latest"] + " ") if found["latest"] else None
    if moment is None or (found["latest"] and latest is None):
        return None
    return Position(moment=moment, count=int(found["count"] or 1), latest=latest)


def told_by(key: LogKey, position: Position) -> str:
    """Give what the field `loc` of a record holds with which a log is told up to a position."""
    return f"{key[0]} {key[1]} {mark_of(position)}"


def begun_by(log_id: str) -> str:
    """Give what the field `loc` of a task log's first record holds.

    :param log_id: 8 to 32 hex digits of its own.
    """
    return f"log {log_id}"


def told_in(records: bytes, before: Told | None = None) -> Told:
    """Give what some whole records hold, on top of what those before them did. A record that is torn holds nothing."""
    before = before or Told()
    last = {(pod, container): mark for pod, container, mark in _FOUND.findall(records)}
    positions = dict(before.positions)
    for (pod, container), mark in last.items():
        if (position := position_of(mark.decode())) is not None:
            key = pod.decode(), container.decode()
            positions.pop(key, None)
            positions[key] = position
    for _ in range(len(positions) - MOST_LOGS):
        del positions[next(iter(positions))]
    logs = {found.decode() for found in _LOG.findall(records)}
    return Told(logs=before.logs | logs if logs else before.logs, positions=positions)


def both(one: Told, other: Told) -> Told:
    """Give what either of two task logs holds: of each container's log the part that is told furthest."""
    positions = dict(one.positions)
    for key, position in other.positions.items():
        positions[key] = later(positions[key], position) if key in positions else position
    return Told(logs=one.logs | other.logs, positions=positions)


def later(one: Position, other: Position) -> Position:
    """Give the position that is further on in the same log."""
    return max(one, other, key=_how_far)


def earlier(one: Position, other: Position) -> Position:
    """Give the position that is less far on in the same log."""
    return min(one, other, key=_how_far)


def _how_far(position: Position) -> tuple[Moment, Moment, int]:
    none = (-1, 0)
    moment = position.moment or none
    # Where the clock went back, what bears an earlier moment than the latest one came after that.
    return position.latest or moment, moment if position.latest is not None else none, position.count


def _stamp(moment: Moment) -> str:
    return f"{_second(moment[0])}.{moment[1]:09d}Z"


# Lines in a row share their second.
@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
