"""What is worth a write to the ledger, and what is not: that what runs has run a little longer."""

from __future__ import annotations

from typing import Final

from gpu_training.core.ledger import LedgerJob
from gpu_training.core.observation import JobObservation

SEEN_EVERY_S: Final = 30.0
"""How often it is written down that nothing ran: whoever watches next charges what nobody has seen."""


def says_more(before: LedgerJob, after: LedgerJob, seen: JobObservation | None) -> bool:
    """Whether a record is worth a write: something happened, or for a while nothing ran in a Job that has begun."""
    if _facts(after) != _facts(before) or after.unseen_gpu_seconds != before.unseen_gpu_seconds:
        return True
    old = after.seen_until - before.seen_until >= SEEN_EVERY_S
    return old and (is_idle(after, seen) or _checkpoints(after) != _checkpoints(before))


def is_idle(record: LedgerJob, seen: JobObservation | None) -> bool:
    """Whether a Job has begun and has no pod: it backs off, or none may be made."""
    return seen is not None and seen.started_at is not None and all(a.ended_at is not None for a in record.attempts)


def _facts(record: LedgerJob) -> list[object]:
    return [
        (a.uid, a.node, a.started_at, a.ended_at, a.verdict, a.first_step, a.first_reported_step is None)
        for a in record.attempts
    ]


def _checkpoints(record: LedgerJob) -> list[int | None]:
    return [attempt.checkpoint_step for attempt in record.attempts]
