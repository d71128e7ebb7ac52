"""When the Job controller makes the next pod after one that did not succeed.

It waits 10 s after the first such pod has ended and twice as long after each further one, 10 minutes at most; pods that
a podFailurePolicy ignores make the wait grow as well (measured with Kubernetes 1.37). It counts in memory: after its
own restart a pod may come earlier than is said here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

FIRST_DELAY_S: Final = 10.0
LONGEST_DELAY_S: Final = 600.0
_DOUBLINGS: Final = 6
"""As many as reach the longest delay."""

_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


def delay_after(ended: int) -> float:
    """Give the seconds between the end of a Job's latest pod and the next one.

    :param ended: pods that did not succeed so far, disrupted ones included; below 1, there is nothing to wait for.
    """
    if ended < 1:
        return 0.0
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * (1 << min(ended - 1, _DOUBLINGS)))


def next_pod_at(ends: Iterable[float | None]) -> float | None:
    """Give when the next pod is due; None when that can not be said.

    :param ends: when each pod of the Job that did not succeed ended, in any order, in seconds since 1970; None for one
        whose end nobody saw.
    """
    seen = list(ends)
    known = [end for end in seen if end is not None and math.isfinite(end)]
    return max(known) + delay_after(len(known)) if known and len(known) == len(seen) else None


def describe_next_pod(ends: Iterable[float | None]) -> str:
    """Give a clause such as `the next pod is due at 19:24:57 UTC, 20 s after the last one ended`; empty without ends.

    It stays the same while nothing ends, so that a log can say it once.

    :param ends: as for :func:`next_pod_at`; with one that nobody saw, the clause names no time of day.
    """
    seen = list(ends)
    due = next_pod_at(seen)
    delay = f"{delay_after(len(seen)):.0f} s after the last one ended"
    if due is not None and 0 <= due < _LATEST:
        return f"the next pod is due at {datetime.fromtimestamp(due, UTC):%H:%M:%S} UTC, {delay}"
    return f"the next pod is due {delay}" if seen else ""
