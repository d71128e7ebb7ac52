"""Spans and moments of time as a person reads them."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

# Up to two days are told in hours: people say "24 h".
_UNITS: Final = ((2, 86400, "d", 3600, "h"), (1, 3600, "h", 60, "min"), (1, 60, "min", 1, "s"))
_SMALL_FROM: Final = 10
"""So many of the larger unit, and the smaller one says nothing any more."""
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def span(seconds: float) -> str:
    """Give a span in its two largest units, rounded down, such as `1 h 12 min`; only the largest from ten of it on."""
    if not math.isfinite(seconds):
        return "an unknown time"
    whole = max(0, int(seconds))
    for least, size, unit, smaller, small_unit in _UNITS:
        if whole >= least * size:
            count, rest = divmod(whole, size)
            small = rest // smaller if count < _SMALL_FROM else 0
            return f"{count} {unit}" + (f" {small} {small_unit}" if small else "")
    return f"{whole} s"


def moment(seconds: float, *, now: float) -> str:
    """Give a moment as `19:24:57 UTC`, with its date where that is not today's.

    :param seconds: since 1970, as is `now`.
    """
    if not 0 <= seconds < _LATEST:
        return "an unknown time"
    told, today = datetime.fromtimestamp(seconds, UTC), datetime.fromtimestamp(min(max(now, 0), _LATEST), UTC)
    return f"{told:%H:%M:%S} UTC" if told.date() == today.date() else f"{told:%Y-%m-%d %H:%M:%S} UTC"


def timestamp(seconds: float | None) -> str | None:
    """Give a moment as RFC 3339 in UTC, in whole seconds, for machines; None for none, or one that no date can name."""
    if seconds is None or not 0 <= seconds < _LATEST:
        return None
    return f"{datetime.fromtimestamp(math.floor(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"
