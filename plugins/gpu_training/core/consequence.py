"""What a task try that asks for a training gets: the Job to wait on, the next Job, what is trained, or a refusal.

The table of consequences (docs/design.md) as one pure function over the lineage's ledger. A clear is told from a retry
by what Airflow changes on it, the task instance's max_tries, never by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gpu_training.core.budget import Budget
from gpu_training.core.exhaustion import exhausted, spent_verdict
from gpu_training.core.ledger import Claim, Ledger, LedgerJob, Renewal, Trained
from gpu_training.core.naming import TaskTry
from gpu_training.core.spending import spending
from gpu_training.core.verdict import Action, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A task try that asks.

    :param max_tries: the task instance's, as Airflow has it now.
    :param by_person: whether a person triggered the run.
    :param retrain: whether what is trained already is to be trained again.
    :param has_fallback: whether a spot fallback is declared.
    """

    task: TaskTry
    max_tries: int
    by_person: bool
    retrain: bool
    budget: Budget
    has_fallback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Wait on this Job."""

    job: LedgerJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Make the Job of this number in this generation.

    :param planned: its record, where an earlier one who asked came that far and no farther.
    """

    number: int
    generation: int
    planned: LedgerJob | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """It is trained.

    :param own: whether this task itself waited on the Job that trained it.
    """

    trained: Trained
    own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """No Job: the budget is spent, or the same work has failed in a way that no repetition cures."""

    verdict: Verdict


Consequence = Join | Start | Reuse | Refuse

_RENEWALS_KEPT: Final = 100


def follow(
    ledger: Ledger, request: Request, now: float, *, unusable: Collection[int] = ()
) -> tuple[Ledger, Consequence]:
    """Give the consequence, and the ledger in which it is written down.

    The ledger's open Job is known to live, or was never made.

    :param now: seconds since 1970.
    :param unusable: generations whose model does not verify any more.
    """
    claim = ledger.claim(request.task.task)
    # Airflow sets it anew for a clear, also to less where the task's retries were lowered, and never for a retry.
    cleared = claim is not None and request.max_tries != claim.max_tries
    if claim is not None and not (cleared and claim.delivered) and claim.generation not in unusable:
        trained = ledger.trained_in(claim.generation)
        if trained is not None:
            own = claim.number == trained.number > 0
            return _delivered(ledger, request, trained, now, own=own), Reuse(trained=trained, own=own)
    if ledger.open_job is not None:
        job = ledger.open_job
        ledger = _claimed(ledger, request, job.generation, job.number, now)
        if job.uid is None:
            return ledger, Start(number=job.number, generation=job.generation, planned=job)
        return ledger, Join(job=job)
    current = ledger.trained_in(ledger.generation)
    if current is not None:
        if ledger.generation not in unusable and not _again(request, claim, cleared=cleared):
            return _delivered(ledger, request, current, now, own=False), Reuse(trained=current, own=False)
        why = "asked for" if claim is None else "cleared after its success"
        why = "its model is gone" if ledger.generation in unusable else why
        return _start(_next_generation(ledger, request, now, why), request, now)
    if _renews(ledger, request, claim, cleared=cleared):
        ledger = _renewed(ledger, request, now, "cleared" if cleared else "a new run by hand")
    return _within_budget(ledger, request, now)


def _again(request: Request, claim: Claim | None, *, cleared: bool) -> bool:
    """Whether what is trained is to be trained again: who asks explicitly, and whoever clears a task that was green."""
    if claim is None:
        return request.retrain
    return cleared and claim.delivered


def _renews(ledger: Ledger, request: Request, claim: Claim | None, *, cleared: bool) -> bool:
    """Whether a person asks for a fresh budget. Who clears or triggers a run with many tasks asks once."""
    if not (cleared or (claim is None and request.by_person)) or not ledger.current_jobs():
        return False
    since = claim.at if claim is not None else float("-inf")
    return not any(
        renewal.period == ledger.period and renewal.at > since and _same_run(renewal.task, request.task)
        for renewal in ledger.renewals
    ) and not (claim is None and _has_asked_in(ledger, request))


def _has_asked_in(ledger: Ledger, request: Request) -> bool:
    """Whether another task of the run has a Job of the current period already."""
    numbers = {job.number for job in ledger.current_jobs()}
    return any(claim.number in numbers and _same_run(claim.task, request.task) for claim in ledger.claims)


def _same_run(task: str, other: TaskTry) -> bool:
    return task.startswith(json.dumps([other.dag_id, other.run_id], separators=(",", ":"))[:-1] + ",")


def delivered(ledger: Ledger, task: TaskTry) -> Ledger:
    """Give the ledger in which a task has got what it asked for: a clear of it means to train again."""
    claim = ledger.claim(task.task)
    return ledger if claim is None else ledger.with_claim(replace(claim, delivered=True))


def _delivered(ledger: Ledger, request: Request, trained: Trained, now: float, *, own: bool) -> Ledger:
    number, before = trained.number if own else 0, ledger.claim(request.task.task)
    told = (request.max_tries, trained.generation, number, True)
    if before is not None and (before.max_tries, before.generation, before.number, before.delivered) == told:
        return ledger
    return delivered(_claimed(ledger, request, trained.generation, number, now), request.task)


def _within_budget(ledger: Ledger, request: Request, now: float) -> tuple[Ledger, Consequence]:
    jobs = ledger.current_jobs()
    last = next((job for job in reversed(jobs) if job.uid is not None), None)
    if last is not None and last.verdict is not None and last.verdict.action is Action.FAIL:
        return _refused(ledger, request, last.verdict, now)
    what = exhausted(ledger, request.budget, now, has_fallback=request.has_fallback)
    if what is not None:
        return _refused(ledger, request, spent_verdict(what, spending(jobs, now)), now)
    return _start(ledger, request, now)


def _refused(ledger: Ledger, request: Request, verdict: Verdict, now: float) -> tuple[Ledger, Refuse]:
    """Refuse, and remember who was refused: by that a person's clear is told later from a first request."""
    if ledger.claim(request.task.task) is None:
        ledger = _claimed(ledger, request, ledger.generation, ledger.next_number - 1, now)
    return ledger, Refuse(verdict=verdict)


def _start(ledger: Ledger, request: Request, now: float) -> tuple[Ledger, Consequence]:
    start = Start(number=ledger.next_number, generation=ledger.generation)
    return _claimed(ledger, request, ledger.generation, start.number, now), start


def _claimed(ledger: Ledger, request: Request, generation: int, number: int, now: float) -> Ledger:
    task = request.task.task
    return ledger.with_claim(
        Claim(task=task, max_tries=request.max_tries, generation=generation, number=number, at=now)
    )


def _renewed(ledger: Ledger, request: Request, now: float, why: str) -> Ledger:
    period = ledger.period + 1
    renewal = Renewal(at=now, task=request.task.task, generation=ledger.generation, period=period, why=why)
    return replace(ledger, period=period, renewals=(*ledger.renewals, renewal)[-_RENEWALS_KEPT:])


def _next_generation(ledger: Ledger, request: Request, now: float, why: str) -> Ledger:
    ahead = replace(ledger, generation=ledger.generation + 1)
    return _renewed(ahead, request, now, f"generation {ahead.generation}: {why}")
