"""When a Job's pods waited for a node: from the times that Kubernetes wrote down, whoever watched or did not.

Waiting is: suspended; no pod yet, or not the next one though its back-off is over; a pod without a node. The pauses of
the Job's own back-off are not: they follow a failure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pods import PodObservation
from gpu_training.core.retry_delay import next_pod_at

Interval = tuple[float, float]

_LATE_S: Final = 5.0
"""A pod that comes so much later than the Job's back-off says was kept from coming."""


def waits_since(observation: Observation, now: float) -> float | None:
    """Give since when the training waits that waits now; None when it does not, or that is not known.

    :param now: seconds since 1970.
    """
    live = [pod for pod in observation.pods if not pod.ended and not pod.gone]
    if live:
        return min((p.created_at for p in live if not p.node and p.created_at is not None), default=None)
    job = observation.job
    if job is None:
        return None
    if job.suspended or job.condition("Suspended") is not None:
        return job.suspended_at if job.suspended_at is not None else job.created_at
    due = _due(job, observation.pods)
    return due if due is not None and due <= now else None


def waits(observation: Observation, now: float) -> tuple[Interval, ...]:
    """Give from when to when the Job waited, as far as what is seen of it tells; the last one may go on.

    :param now: seconds since 1970.
    """
    job, found = observation.job, []
    if job is None:
        return ()
    end = job.final.changed_at if job.final is not None and job.final.changed_at is not None else now
    if job.created_at is not None and job.started_at is not None and job.suspended_at is None:
        found.append((job.created_at, job.started_at))
    if job.parallelism in (None, 1):
        found += [_wait_of(pod, end) for pod in observation.pods if pod.created_at is not None]
        found += _without_pod(job, observation.pods)
    else:
        found += _wait_of_gang(job, observation.pods, end)
    open_since = waits_since(observation, now)
    if open_since is not None and not observation.gone and job.final is None:
        found.append((open_since, now))
    return merged(found)


def merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Give the same time as intervals that do not meet, in order."""
    result: list[Interval] = []
    for begin, end in sorted(each for each in intervals if each[1] > each[0]):
        if result and begin <= result[-1][1]:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((begin, end))
    return tuple(result)


def seconds_within(intervals: Sequence[Interval], begin: float, end: float) -> float:
    """Give how much of the time from `begin` to `end` lies in the intervals, which do not meet."""
    return sum(max(0.0, min(stop, end) - max(start, begin)) for start, stop in intervals)


def _wait_of(pod: PodObservation, end: float) -> Interval:
    begin = pod.created_at or 0.0
    if pod.scheduled_at is not None:
        return begin, pod.scheduled_at
    # One that is gone and had no node when it was seen last may have got one unseen.
    return begin, begin if pod.gone or pod.node else end


def _wait_of_gang(job: JobObservation, pods: Sequence[PodObservation], end: float) -> list[Interval]:
    """A gang waits until its first pod has a node: from then on it holds GPUs."""
    created = [pod.created_at for pod in pods if pod.created_at is not None]
    begun = [pod.scheduled_at for pod in pods if pod.scheduled_at is not None]
    begin = job.started_at if job.started_at is not None else min(created, default=end)
    return [(begin, min(begun, default=begin if any(pod.gone for pod in pods) else end))]


def _without_pod(job: JobObservation, pods: Sequence[PodObservation]) -> list[Interval]:
    """Give when the next pod was due and did not come, for each that came."""
    return [
        (due, pod.created_at)
        for n, pod in enumerate(pods)
        if pod.created_at is not None and (due := _due(job, pods[:n])) is not None
    ]


def _due(job: JobObservation, before: Sequence[PodObservation]) -> float | None:
    """Give from when on the Job lacks a pod: since it began, or since its back-off after the last one was over."""
    if not before:
        return job.started_at if job.started_at is not None else job.created_at
    if before[-1].phase == "Succeeded":
        return None
    due = next_pod_at(_ended_at(pod) for pod in before if pod.phase != "Succeeded")
    return None if due is None else due + _LATE_S


def _ended_at(pod: PodObservation) -> float | None:
    return max(
        (c.finished_at for c in (*pod.init_containers, *pod.containers) if c.finished_at is not None), default=None
    )
