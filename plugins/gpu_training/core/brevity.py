"""A ledger that has grown too long for its ConfigMap, with fewer words: what is counted and decided by stays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.ledger import Ledger, LedgerJob

LONGEST: Final = 900_000
"""Characters, all of them ASCII. The API server takes a mebibyte, and refuses the whole ledger beyond it."""

_WORDS_KEPT: Final = 60
_JOBS_KEPT: Final = 5
_CLAIMS_KEPT: Final = 50


def _of_earlier_jobs(ledger: Ledger) -> Ledger:
    return replace(ledger, jobs=(*(_in_brief(job) for job in ledger.jobs[:-1]), *ledger.jobs[-1:]))


def _of_all_jobs(ledger: Ledger) -> Ledger:
    return replace(ledger, jobs=tuple(_in_brief(job) for job in ledger.jobs))


def _of_earlier_periods(ledger: Ledger) -> Ledger:
    return ledger.folded(kept=_JOBS_KEPT)


def _of_earlier_claims(ledger: Ledger) -> Ledger:
    return replace(ledger, claims=ledger.claims[-_CLAIMS_KEPT:], renewals=ledger.renewals[-_CLAIMS_KEPT:])


def _in_brief(job: LedgerJob) -> LedgerJob:
    return replace(job, attempts=tuple(_without_words(attempt) for attempt in job.attempts))


def _without_words(attempt: Attempt) -> Attempt:
    if attempt.verdict is None or attempt.ended_at is None:
        return attempt
    return replace(attempt, verdict=replace(attempt.verdict, summary=attempt.verdict.summary[:_WORDS_KEPT], remedy=""))


BRIEFER: Final[tuple[Callable[[Ledger], Ledger], ...]] = (
    _of_earlier_jobs,
    _of_earlier_periods,
    _of_all_jobs,
    _of_earlier_claims,
)
"""What is left out, in turn, until it fits: the least needed first."""
