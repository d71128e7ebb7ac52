"""What is seen of a Job -> its record in the ledger. Nothing that was written down once is taken back.

An attempt's pod may be gone a second after its end, and be counted nowhere; and for a time nobody may have watched.
So an attempt is kept as it was seen; one that vanished is closed at the latest moment at which it can have ended; and
time in which unseen pods may have run is charged in full, marked as estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpu_training.core.attempts import Attempt, steps_of, with_steps
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.ledger import Ending, LedgerJob
from gpu_training.core.memory_growth import is_largest
from gpu_training.core.observation import Observation
from gpu_training.core.queue_time import Interval, merged, waited
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_LEAST_GAP_S: Final = 2.0
"""Kubernetes writes times in whole seconds."""

_UNEXPLAINED: Final = frozenset({Category.APPLICATION_ERROR, Category.KILLED, Category.UNKNOWN})

_VANISHED: Final = Verdict(
    category=Category.DISRUPTED,
    owner=Owner.INFRASTRUCTURE,
    action=Action.WAIT,
    summary="the pod was gone when somebody looked again; it is charged up to the latest moment at which it can have "
    "ended",
    remedy="nothing: a pod that fails by itself stays to be seen, so this one was taken away",
)


_ENDED_WITH_ITS_JOB: Final = Verdict(
    category=Category.KILLED,
    owner=Owner.INFRASTRUCTURE,
    action=Action.RETRY,
    summary="the pod was ended together with its Job",
    remedy="nothing: see why the Job ended",
)


def book(
    job: LedgerJob, observation: Observation, seen: Sequence[Attempt], *, now: float, watched_since: float
) -> LedgerJob:
    """Give the Job's record with what is seen now.

    :param seen: attempts of the observation, by age.
    :param now: seconds since 1970.
    :param watched_since: since when whoever asks has seen all that happened to the Job's pods.
    """
    known = {attempt.uid: attempt for attempt in job.attempts}
    attempts = [_merged(known.get(attempt.uid), attempt) for attempt in seen]
    here = {attempt.uid for attempt in seen}
    lost = [_heard(_closed(a, observation, attempts, now), observation) for a in job.attempts if a.uid not in here]
    covered = _covered(observation, [*lost, *attempts])
    gaps = _unseen(job, observation, covered, now=now, watched_since=watched_since)
    unseen = sum(stop - start for start, stop in gaps)
    return replace(
        job,
        attempts=tuple(sorted([*lost, *attempts], key=_age)),
        seen_until=max(job.seen_until, now),
        unseen_gpu_seconds=round(job.unseen_gpu_seconds + unseen * job.gpus, 3),
        waited=waited(job.waited, observation, [*lost, *attempts], now, since=job.seen_until, unseen=gaps),
    )


def _heard(attempt: Attempt, observation: Observation) -> Attempt:
    """Give an attempt whose pod is gone with what its log had told: an earlier watcher may have heard it."""
    if attempt.pod not in observation.steps:
        return attempt
    return with_steps(attempt, steps_of(attempt).joined(observation.steps[attempt.pod]))


def _age(attempt: Attempt) -> tuple[float, str]:
    return (attempt.started_at if attempt.started_at is not None else float("inf"), attempt.uid)


def _merged(before: Attempt | None, seen: Attempt) -> Attempt:
    """Give what is known of an attempt: an end and its verdict, once seen, are not taken back by later sights, and
    neither are its steps."""
    if before is None:
        return seen
    return with_steps(_ended_as(before, seen), steps_of(before).joined(steps_of(seen)))


def _ended_as(before: Attempt, seen: Attempt) -> Attempt:
    if before.ended_at is None:
        return seen
    if seen.ended_at is None:
        return before
    if before.estimated and not seen.estimated:
        return seen
    return seen if _is_refined(before.verdict, seen.verdict) else before


def _is_refined(before: Verdict | None, seen: Verdict | None) -> bool:
    """Whether a later sight explains what no rule knew before: the log's last lines come after the end."""
    return (
        before is not None
        and seen is not None
        and before.category in _UNEXPLAINED
        and seen.category not in (*_UNEXPLAINED, Category.DISRUPTED)
    )


def _closed(attempt: Attempt, observation: Observation, seen: Sequence[Attempt], now: float) -> Attempt:
    """Give an attempt whose pod is gone, with the latest moment at which it can have ended."""
    pods = {pod.uid: pod for pod in observation.pods}
    ends = [now]
    if observation.job is not None and observation.job.parallelism in (None, 1):
        # The replacement is made when its predecessor has ended (podReplacementPolicy Failed).
        ends += [
            created
            for other in seen
            if other.uid in pods
            and (created := pods[other.uid].created_at) is not None
            and attempt.started_at is not None
            and created >= attempt.started_at
        ]
    final = observation.job.final if observation.job is not None else None
    if final is not None and final.changed_at is not None:
        ends.append(final.changed_at)
    return _ended(attempt, min(ends), _VANISHED)


def _ended(attempt: Attempt, at: float, verdict: Verdict | None) -> Attempt:
    """Give an attempt with an end that nobody saw; one that has ended stays as it is.

    :param verdict: what that means, where no other is known.
    """
    if attempt.ended_at is not None:
        return attempt
    held = max(0.0, at - attempt.started_at) if attempt.started_at is not None else 0.0
    return replace(
        attempt,
        ended_at=at,
        gpu_seconds=round(held * attempt.gpus, 3),
        estimated=attempt.started_at is not None,
        verdict=attempt.verdict or verdict,
    )


def _covered(observation: Observation, attempts: Sequence[Attempt]) -> list[tuple[float, float]]:
    """Give from when to when no pod can have been there but those that are known. One that waits for its node covers,
    too; one that waited when it was seen last, and is gone, may have run since."""
    created = {pod.uid: pod.created_at for pod in observation.pods}
    begins = [(created.get(attempt.uid) or attempt.started_at, attempt.ended_at) for attempt in attempts]
    return sorted((begin, float("inf") if end is None else end) for begin, end in begins if begin is not None)


def _unseen(
    job: LedgerJob,
    observation: Observation,
    covered: Sequence[tuple[float, float]],
    *,
    now: float,
    watched_since: float,
) -> tuple[Interval, ...]:
    """Give from when to when pods may have come and gone without anybody seeing them."""
    begin, end = max(job.seen_until, job.created_at), min(now, watched_since)
    seen = observation.job
    if seen is not None:
        if seen.started_at is not None:
            begin = max(begin, seen.started_at)
        elif seen.suspended_at is None and not observation.gone:
            return ()  # it never began
        # A Job that is suspended has run until then: its startTime is cleared, and its pods are counted nowhere.
        ends = (seen.suspended_at, seen.final.changed_at if seen.final is not None else None)
        end = min([end, *(moment for moment in ends if moment is not None)])
    unseen, reached = [], begin
    for start, stop in [*covered, (end, end)]:
        unseen.append((reached, min(start, end)))
        reached = max(reached, stop)
    gaps = merged(unseen)
    return gaps if sum(stop - start for start, stop in gaps) >= _LEAST_GAP_S else ()


def close(job: LedgerJob, outcome: Outcome, *, now: float, memory_cap: str) -> LedgerJob:
    """Give the record of a Job that has ended.

    :param outcome: what its end means.
    :param memory_cap: the most memory that a Job may have: an attempt that ran out of that much is the last one.
    """
    if job.ended_at is not None:
        return job
    ended = [attempt.ended_at for attempt in job.attempts if attempt.ended_at is not None]
    end = now if outcome.kind is OutcomeKind.LOST or not ended else min(now, max(ended))
    succeeded = outcome.kind is OutcomeKind.SUCCEEDED
    attempts = tuple(_ended(each, now, None if succeeded else _ENDED_WITH_ITS_JOB) for each in job.attempts)
    return replace(
        job,
        ended_at=max(end, job.created_at),
        ending=Ending(outcome.kind.value),
        verdict=final_verdict(outcome.verdict, job, memory_cap),
        attempts=_with_success(attempts) if succeeded else attempts,
    )


def _with_success(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Give the attempts of a Job that succeeded. Where none was seen to, it was the last one whose end nobody saw: its
    pod was taken away a moment after it had done its work."""
    if any(attempt.verdict is None for attempt in attempts):
        return attempts
    unseen = [attempt for attempt in attempts if attempt.estimated]
    return tuple(replace(each, verdict=None) if each in unseen[-1:] else each for each in attempts)


def take_away(job: LedgerJob, ending: Ending, *, now: float, because: Verdict | None = None) -> LedgerJob:
    """Give the record of a Job that was deleted. What its pods still hold in their grace period is not in it.

    :param because: what the end of an attempt means that was on a node; None where that is nobody's fault.
    """
    if job.ended_at is not None:
        return job
    running = [each for each in job.attempts if each.ended_at is None and each.started_at is not None]
    # Of a gang one attempt is to blame, the others are ended with it.
    culprit = min(running, key=_age, default=None)
    released = tuple(
        _ended(attempt, now, because if because is not None and attempt is culprit else _ENDED_WITH_ITS_JOB)
        for attempt in job.attempts
    )
    return replace(job, ended_at=now, ending=ending, attempts=released)


def final_verdict(verdict: Verdict | None, job: LedgerJob, memory_cap: str) -> Verdict | None:
    """Give the verdict, which is final where more memory is asked for and there is no more to be had."""
    if verdict is None or verdict.action is not Action.RETRY_LARGER or not is_largest(job.memory, memory_cap):
        return verdict
    return replace(
        verdict,
        action=Action.FAIL,
        summary=f"{verdict.summary}; {job.memory} is the most that training.memory_growth allows",
        remedy="raise memory_growth.maximum, or read less data at once; shared memory counts against the limit",
    )
