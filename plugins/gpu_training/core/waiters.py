"""Who waits on a Job: task tries of any run, in an annotation of the Job itself. The last one out deletes the Job."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gpu_training.core.naming import TaskTry

Waiters = tuple[TaskTry, ...]


def waiters_of(text: str) -> Waiters | None:
    """Give the waiters in an annotation; None when it is not one that we wrote: who waits is not known then."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entries, list):
        return None
    waiters = [TaskTry.from_plain(entry) for entry in entries]
    return None if None in waiters else tuple(waiter for waiter in waiters if waiter is not None)


def to_text(waiters: Iterable[TaskTry]) -> str:
    """Give the annotation's text."""
    return json.dumps([waiter.to_plain() for waiter in waiters], separators=(",", ":"))


def joined(waiters: Waiters, waiter: TaskTry) -> Waiters:
    """Give the list with a try in place of the earlier ones of its task."""
    return (*(other for other in waiters if not waiter.same_task(other)), waiter)


def later_try(waiters: Waiters, waiter: TaskTry) -> TaskTry | None:
    """Give a later try of the same task, for which this one has no say any more."""
    return next((o for o in waiters if waiter.same_task(o) and o.try_number > waiter.try_number), None)
