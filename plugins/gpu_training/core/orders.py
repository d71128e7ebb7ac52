"""Having Kubernetes end a Job that only we know to be over, and reading back why: the order stands on the Job itself.

A Job's podFailurePolicy sees exit codes and pod conditions. What it can not see (a container's reason, a line of the
log, a budget over several Jobs) is seen by whoever watches, during the Job's back-off or while the pod runs. With
activeDeadlineSeconds lowered to one second, Kubernetes ends what runs with its grace period; with backoffLimit 0, a Job
that waits for its next pod fails at once (measured with Kubernetes 1.37: within 0.02 s).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_training.core.budget import Allowance
from gpu_training.core.exhaustion import overdrawn, spent_verdict
from gpu_training.core.ledger import LedgerJob
from gpu_training.core.naming import ANNOTATION_ENDED_BECAUSE
from gpu_training.core.observation import JobObservation
from gpu_training.core.plain_data import PlainDataError, plain_verdict, verdict_of
from gpu_training.core.spec import MAXIMUM_DEADLINE_S
from gpu_training.core.spending import spending
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_FINAL_FOR_THE_JOB: Final = frozenset({Action.FAIL, Action.RETRY_ELSEWHERE, Action.RETRY_LARGER})
_LONGEST_WORDS: Final = 1000
ADMISSION_SLACK: Final = 1
_ROUNDING_S: Final = 2
"""Kubernetes writes times in whole seconds."""


REPLACED: Final = Verdict(
    category=Category.REPLACED,
    owner=Owner.INFRASTRUCTURE,
    action=Action.RETRY,
    summary="a waiter of higher priority had the Job replaced before any of its pods started",
    remedy="nothing: this task waits on the Job that replaced it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The Job is over."""

    verdict: Verdict

    def patch(self) -> dict[str, Any]:
        """Give the merge patch that has Kubernetes end the Job."""
        return {
            "metadata": {"annotations": reason_annotation(self.verdict)},
            "spec": {"activeDeadlineSeconds": 1, "backoffLimit": 0},
        }


def reason_annotation(verdict: Verdict) -> dict[str, str]:
    """Give the annotation that says why we end a Job; it is written before that is done."""
    words = plain_verdict(verdict) or {}
    return {ANNOTATION_ENDED_BECAUSE: json.dumps({name: value[:_LONGEST_WORDS] for name, value in words.items()})}


def due(
    job: LedgerJob,
    seen: JobObservation,
    now: float,
    *,
    logs_are_read: bool,
    attempts_left: int,
    begun_anew: Verdict | None = None,
) -> Order | None:
    """Give the order for a Job that lives and is over; None while it may go on.

    :param job: its record, in which all that was seen is booked.
    :param now: seconds since 1970.
    :param attempts_left: that the lineage may still spend.
    :param begun_anew: why it is ended though all is well with it: an attempt has not gone on from its checkpoint.
    :param logs_are_read: whether the logs of what has failed were read to their end, which may explain more.
    """
    if seen.ended or seen.deleting or seen.condition("FailureTarget") or seen.condition("SuccessCriteriaMet"):
        return None
    if ended_because(seen) is not None:
        return None
    verdicts = [attempt.verdict for attempt in job.attempts if attempt.verdict is not None]
    final = next((verdict for verdict in reversed(verdicts) if verdict.action in _FINAL_FOR_THE_JOB), begun_anew)
    if final is not None:
        return Order(verdict=final)
    # A replacement that began while nobody watched is the next attempt, if the lineage has one left: a training for its
    # predecessor's failure is not cut short to be begun anew.
    goes_on = attempts_left > 0 and any(a.ended_at is None and a.started_at is not None for a in job.attempts)
    if job.failures > job.allowance.failures and logs_are_read and not goes_on:
        failed = next(verdict for verdict in reversed(verdicts) if verdict.action is not Action.WAIT)
        return Order(verdict=failed)
    what = overdrawn(job, now)
    # Whether another Job may follow is the ledger's to say: the spot fallback, or a budget that was raised meanwhile.
    return Order(verdict=replace(spent_verdict(what, spending([job], now)), action=Action.RETRY)) if what else None


def ended_because(job: JobObservation) -> Verdict | None:
    """Give the verdict for which we had a Job ended; None when there is none, or somebody wrote something else."""
    try:
        return verdict_of(json.loads(job.annotations.get(ANNOTATION_ENDED_BECAUSE, "null")))
    except (ValueError, RecursionError, PlainDataError):
        return None


def wanted_backoff_limit(allowance: Allowance, *, admissions: int) -> int:
    """Give the backoffLimit of a Job: the failures that it may make good, those at admission that no podFailurePolicy
    can match, and one more of these to come, so that none ends the Job before anybody has seen it.

    :param admissions: pods so far that a node turned away.
    """
    return allowance.failures + admissions + ADMISSION_SLACK


def wanted_deadline(
    job: LedgerJob, seen: JobObservation, now: float, *, waits_since: float | None, queue_seconds: int | None
) -> int | None:
    """Give the activeDeadlineSeconds by which Kubernetes ends a Job that nobody watches any more; None where it is well
    as it is.

    Kubernetes counts from the startTime, the queue included. So the deadline leaves room for the rest of the queue
    while the Job waits, and none once it has a node. Whoever waits on it only ever makes more room in the queue, and
    less outside of it: two that differ in their clocks do not undo what the other has written.

    :param job: its record, in which all that was seen is booked.
    :param now: seconds since 1970.
    :param waits_since: since when it waits; None while it has what it needs.
    :param queue_seconds: of whoever asks; None for no limit.
    """
    if seen.started_at is None or seen.deadline_seconds is None or seen.suspended:
        return None
    left = max(0.0, job.allowance.wall_seconds - job.wall_seconds(now))
    wanted = math.ceil(max(1.0, now - seen.started_at + left))
    if waits_since is None:
        return wanted if seen.deadline_seconds > wanted + _ROUNDING_S else None
    queue = MAXIMUM_DEADLINE_S if queue_seconds is None else max(0.0, queue_seconds - (now - waits_since))
    wanted = math.ceil(min(MAXIMUM_DEADLINE_S, wanted + queue))
    return wanted if seen.deadline_seconds < wanted - _ROUNDING_S else None


def admissions_of(job: LedgerJob) -> int:
    """Give how many pods of a Job a node turned away."""
    return sum(a.verdict is not None and a.verdict.category is Category.ADMISSION_FAILED for a in job.attempts)
