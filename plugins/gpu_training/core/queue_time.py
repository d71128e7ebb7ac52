"""When a Job's pods waited for a node: from the times that Kubernetes wrote down, whoever watched or did not.

Waiting is: suspended; no pod yet, or not the next one though its back-off is over; a pod without a node. The pauses of
the Job's own back-off are not: they follow a failure. Nor is time in which an attempt is known to have been on a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pods import PodObservation
from gpu_training.core.retry_delay import next_pod_at

Interval = tuple[float, float]

_LATE_S: Final = 5.0
"""A pod that comes so much later than the Job's back-off says was kept from coming."""
_CLOCKS_DIFFER_S: Final = 5.0
"""The controller's clock dates a Job's start, the API server's a pod's creation."""


def waits_since(observation: Observation, now: float, attempts: Sequence[Attempt] = ()) -> float | None:
    """Give since when the training waits that waits now; None when it does not, or that is not known.

    :param now: seconds since 1970.
    :param attempts: that somebody saw: whoever began to watch later does not see the pods that are gone.
    """
    job = observation.job
    if observation.gone or (job is not None and job.ended):
        return None
    return _open_since(observation, now, attempts)


def _open_since(observation: Observation, now: float, attempts: Sequence[Attempt]) -> float | None:
    job = observation.job
    live = [pod for pod in observation.pods if not pod.ended and not pod.gone]
    if live:
        return min((p.created_at for p in live if not p.node and p.created_at is not None), default=None)
    if job is None:
        return None
    if job.suspended or job.condition("Suspended") is not None:
        if job.suspended_at is None and job.started_at is not None:
            return None  # it is told to, and has not yet: it waits from then on
        return job.suspended_at if job.suspended_at is not None else job.created_at
    if job.active or (not observation.pods and not attempts and (job.failed or job.succeeded)):
        return None  # since its last pod, which nobody has seen
    due = _due(job, observation.pods, attempts)
    return due if due is not None and due <= now else None


def waited(
    before: Sequence[Interval],
    observation: Observation,
    attempts: Sequence[Attempt],
    now: float,
    *,
    since: float = float("-inf"),
    unseen: Sequence[Interval] = (),
) -> tuple[Interval, ...]:
    """Give from when to when the Job waited, as far as what is seen of it tells; the last one may go on.

    :param before: what was known already; it stays, but where an attempt turns out to have been on a node.
    :param attempts: all that are known, those of the observation's pods among them.
    :param now: seconds since 1970.
    :param since: until when `before` tells all.
    :param unseen: when pods may have run that nobody saw: it is charged in full, and no wait.
    """
    found = _without(_waits(observation, attempts, now), merged([(float("-inf"), since), *unseen]))
    return _without([*before, *found], _on_nodes(attempts))


def _waits(observation: Observation, attempts: Sequence[Attempt], now: float) -> list[Interval]:
    job, found = observation.job, []
    if job is None:
        return []
    end = job.final.changed_at if job.final is not None and job.final.changed_at is not None else now
    if job.created_at is not None and job.started_at is not None and job.suspended_at is None:
        # One that was suspended and goes on has a new startTime.
        earlier = [stop for _, stop in _on_nodes(attempts) if stop <= job.started_at]
        found.append((max([job.created_at, *earlier]), job.started_at))
    if job.parallelism in (None, 1):
        found += [_wait_of(pod, end) for pod in observation.pods if pod.created_at is not None]
        found += _without_pod(job, observation.pods, attempts)
    else:
        found += _wait_of_gang(job, observation.pods, attempts, end)
    # One that ended while it lacked a pod has waited to its end.
    open_since = None if observation.gone else _open_since(observation, end, attempts)
    if open_since is not None:
        found.append((open_since, end))
    first = job.created_at if job.created_at is not None else float("-inf")
    return [(max(begin, first), min(stop, end)) for begin, stop in found]


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


def _without(intervals: Iterable[Interval], taken: Sequence[Interval]) -> tuple[Interval, ...]:
    """Give the time of the intervals that does not lie in those others, which do not meet."""
    left = []
    for begin, end in merged(intervals):
        for start, stop in taken:
            if start < end and stop > begin:
                left.append((begin, start))
                begin = stop
        left.append((begin, end))
    return merged(left)


def _on_nodes(attempts: Iterable[Attempt]) -> tuple[Interval, ...]:
    held = [(each.started_at, each.ended_at) for each in attempts]
    return merged((start, float("inf") if end is None else end) for start, end in held if start is not None)


def _wait_of(pod: PodObservation, end: float) -> Interval:
    begin = pod.created_at or 0.0
    if pod.scheduled_at is not None:
        return begin, pod.scheduled_at
    # One that is gone and had no node when it was seen last may have got one unseen; when one ended that had none, it
    # does not say.
    return begin, begin if pod.gone or pod.ended or pod.node else end


def _wait_of_gang(
    job: JobObservation, pods: Sequence[PodObservation], attempts: Sequence[Attempt], end: float
) -> list[Interval]:
    """A gang waits until its first pod has a node: from then on it holds GPUs."""
    created = [pod.created_at for pod in pods if pod.created_at is not None]
    begin = job.started_at if job.started_at is not None else min(created, default=end)
    got = [each.started_at for each in attempts if each.started_at is not None]
    first = min((start for start in got if start >= begin - _CLOCKS_DIFFER_S), default=None)
    if first is not None:
        return [(begin, first)]
    return [(begin, begin if any(pod.gone for pod in pods) else end)]


def _without_pod(job: JobObservation, pods: Sequence[PodObservation], attempts: Sequence[Attempt]) -> list[Interval]:
    """Give when the next pod was due and did not come, for each that came."""
    here, found = {pod.uid for pod in pods}, []
    for n, pod in enumerate(pods):
        if pod.created_at is None:
            continue
        before = {each.uid for each in pods[:n]}
        seen = [each for each in attempts if each.uid in before]
        # It was made when its predecessor had ended.
        unseen = [
            replace(each, ended_at=min(pod.created_at, each.ended_at))
            for each in attempts
            if each.uid not in here and each.ended_at is not None and (each.started_at or 0.0) < pod.created_at
        ]
        due = _due(job, pods[:n], [*unseen, *seen])
        if due is not None:
            found.append((due, pod.created_at))
    return found


def _due(job: JobObservation, before: Sequence[PodObservation], attempts: Sequence[Attempt]) -> float | None:
    """Give from when on the Job lacks a pod: since it began, or since its back-off after the last one was over.

    :param before: pods that came earlier.
    :param attempts: those of these pods, and earlier ones whose pods are not seen any more.
    """
    began = job.started_at if job.started_at is not None else job.created_at
    ends = {each.uid: each.ended_at for each in attempts}
    ends |= {pod.uid: pod.last_finished_at or ends.get(pod.uid) for pod in before}
    if not ends:
        return began
    succeeded = {each.uid for each in attempts if each.ended_at is not None and each.verdict is None}
    if succeeded or (before[-1:] and before[-1].phase == "Succeeded"):
        return None
    due = next_pod_at(ends.values())
    return None if due is None else max(due + _LATE_S, began if began is not None else due)
