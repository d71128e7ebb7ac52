"""Pods -> attempts: who ran when, on what, for how many GPU-seconds, and what its end means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpu_training.core.classify import Verdict, classify_pod
from gpu_training.core.observation import Observation, PodObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pod of the Job.

    :param number: from 1, by age.
    :param gpu_seconds: GPUs held, from the binding to a node to the end of the last container (or to now).
    :param estimated: whether the end was not seen and now stands for it, so that nothing is charged too little.
    :param verdict: what its end means; None while it runs and when it succeeded.
    """

    number: int
    pod: str
    node: str
    gpu_seconds: float
    estimated: bool
    verdict: Verdict | None


def attempts_of(observation: Observation, now: float) -> tuple[Attempt, ...]:
    """Give the attempts that were seen, by age.

    :param now: seconds since 1970; the end of what still runs.
    """
    return tuple(_attempt(number, pod, now) for number, pod in enumerate(observation.pods, start=1))


def total_gpu_seconds(attempts: Iterable[Attempt]) -> float:
    return sum(attempt.gpu_seconds for attempt in attempts)


def _attempt(number: int, pod: PodObservation, now: float) -> Attempt:
    end = _end(pod)
    held = max(0.0, (end if end is not None else now) - pod.scheduled_at) if pod.scheduled_at is not None else 0.0
    return Attempt(
        number=number,
        pod=pod.name,
        node=pod.node,
        gpu_seconds=round(held * pod.gpus, 3),
        estimated=end is None and (pod.gone or pod.ended) and pod.scheduled_at is not None,
        verdict=classify_pod(pod),
    )


def _end(pod: PodObservation) -> float | None:
    """Give when the pod let its GPUs go: the end of its last container; None when none is known."""
    if not (pod.ended or pod.gone):
        return None
    if pod.ended and not pod.containers:
        return pod.scheduled_at  # turned away at admission: it never held anything
    ends = [container.finished_at for container in (*pod.init_containers, *pod.containers) if container.finished_at]
    if pod.gone and not pod.ended and any(container.finished_at is None for container in pod.containers):
        return None
    return max(ends, default=None)
