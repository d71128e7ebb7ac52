"""Pods -> attempts: who ran when, on what, for how many GPU-seconds, and what its end means."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gpu_training.contract import ContractError, parse_result
from gpu_training.core.classify import classify_pod
from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pods import Condition, ContainerState, PodObservation
from gpu_training.core.rules import RuleTable
from gpu_training.core.steps import Steps, steps_of_result
from gpu_training.core.verdict import Category, Verdict

_CIRCUMSTANCES: Final = frozenset(
    {Category.DISRUPTED, Category.ADMISSION_FAILED, Category.KILLED, Category.INTERRUPTED, Category.UNKNOWN}
)

_CLOCKS_DIFFER_S: Final = 5.0
"""The controller's clock dates a Job's start, the API server's a pod's creation."""

_SUSPENDED: Final = Condition(
    type="DisruptionTarget", holds=True, reason="JobSuspended", message="the Job was suspended"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One pod of the Job.

    :param number: from 1, by age.
    :param pod: name of the pod.
    :param uid: UID of the pod.
    :param started_at: when it was bound to a node; None when it was not.
    :param ended_at: when it let its GPUs go, or the latest moment at which it can have; None while it lives.
    :param gpus: GPUs held from the one to the other.
    :param gpu_seconds: GPUs held, from the binding to a node to the end of the last container (or to now).
    :param estimated: whether the end was not seen and the latest possible one stands for it, so that nothing is charged
        too little.
    :param verdict: what its end means; None while it runs and when it succeeded.
    :param first_step: first step of the training that it did; None when it has not said so.
    :param first_reported_step: least step that it reported; its first one was that or an earlier one.
    :param last_step: last step that it is known to have done.
    :param checkpoint_step: step of the newest complete checkpoint that it is known to have had: its own, or the one
        that it went on from.
    """

    number: int
    pod: str
    uid: str
    node: str
    started_at: float | None
    ended_at: float | None
    gpus: int
    gpu_seconds: float
    estimated: bool
    verdict: Verdict | None
    first_step: int | None = None
    first_reported_step: int | None = None
    last_step: int | None = None
    checkpoint_step: int | None = None


def attempts_of(observation: Observation, now: float, rules: RuleTable) -> tuple[Attempt, ...]:
    """Give the attempts that were seen, by age.

    :param now: seconds since 1970; the end of what still runs.
    :param rules: what says what an end means.
    """
    pods, findings = observation.pods, observation.findings
    return tuple(
        _attempt(
            n,
            pod,
            min(now, _latest_end(observation.job, pod, pods[n:])),
            classify_pod(_judged(observation.job, pod), rules, finding=findings.get(pod.name)),
            _steps(pod, observation.steps.get(pod.name, Steps())) if _speaks(observation.job, pod) else Steps(),
        )
        for n, pod in enumerate(pods, start=1)
    )


def total_gpu_seconds(attempts: Iterable[Attempt]) -> float:
    """Give the GPU-seconds of all attempts."""
    return round(sum(attempt.gpu_seconds for attempt in attempts), 3)


def pulled_down(attempt: Attempt, others: Iterable[Attempt]) -> bool:
    """Whether an attempt ran beside another one that failed, and ended no earlier: Kubernetes ends all pods of a failed
    Job."""
    start, end = attempt.started_at, attempt.ended_at
    if start is None or end is None:
        return False
    return any(
        other.uid != attempt.uid
        and other.verdict is not None
        and other.verdict.category not in _CIRCUMSTANCES
        and other.ended_at is not None
        and start < other.ended_at <= end
        for other in others
    )


def _judged(job: JobObservation | None, pod: PodObservation) -> PodObservation:
    """Give a pod with the condition that Kubernetes does not set where a Job is suspended, as a queue has it done: its
    pods are deleted then, and count as no failures. A Job that goes on has a new startTime."""
    if job is None or not (pod.deleting or (pod.gone and not pod.ended)):
        return pod
    began, created = job.started_at, pod.created_at
    earlier = began is not None and created is not None and created < began - _CLOCKS_DIFFER_S
    return replace(pod, conditions=(*pod.conditions, _SUSPENDED)) if job.suspended or earlier else pod


def with_steps(attempt: Attempt, steps: Steps) -> Attempt:
    """Give an attempt that did these steps."""
    return replace(
        attempt,
        first_step=steps.first,
        first_reported_step=steps.least,
        last_step=steps.last,
        checkpoint_step=steps.checkpoint,
    )


def steps_of(attempt: Attempt) -> Steps:
    """Give the steps that an attempt is known to have done."""
    return Steps(
        first=attempt.first_step,
        least=attempt.first_reported_step,
        last=attempt.last_step,
        checkpoint=attempt.checkpoint_step,
    )


def _speaks(job: JobObservation | None, pod: PodObservation) -> bool:
    """Whether a pod's steps are the training's: of an Indexed Job, index 0 speaks for all; of other pods that work side
    by side, nobody does."""
    return pod.index == 0 or (pod.index is None and (job is None or job.parallelism in (None, 1)))


def _steps(pod: PodObservation, told: Steps) -> Steps:
    """Give the steps of a pod, by its log and by what it left."""
    try:
        result = parse_result(pod.training.message if pod.training is not None else "")
    except ContractError:
        return told
    return told if result.pod_uid not in (None, pod.uid) else steps_of_result(result).joined(told)


def _attempt(number: int, pod: PodObservation, latest_end: float, verdict: Verdict | None, steps: Steps) -> Attempt:
    seen_end = _seen_end(pod)
    end = latest_end if seen_end is None else seen_end
    held = max(0.0, end - pod.scheduled_at) if pod.scheduled_at is not None else 0.0
    attempt = Attempt(
        number=number,
        pod=pod.name,
        uid=pod.uid,
        node=pod.node,
        started_at=pod.scheduled_at,
        ended_at=end if pod.ended or pod.gone else None,
        gpus=pod.gpus,
        gpu_seconds=round(held * pod.gpus, 3),
        estimated=seen_end is None and (pod.gone or pod.ended) and pod.scheduled_at is not None,
        verdict=verdict,
    )
    return with_steps(attempt, steps)


def _seen_end(pod: PodObservation) -> float | None:
    """Give when a pod let its GPUs go: the end of its last container; None when it holds them or nobody saw the end."""
    if not (pod.ended or pod.gone):
        return None
    containers = (*pod.init_containers, *pod.containers)
    if pod.ended and not containers:
        return pod.scheduled_at  # turned away at admission: it never held anything
    # In a pod that has ended, a container that waits never starts; but one of a lost node stays `running` for ever:
    # the pod's garbage collector sets the phase alone (measured with Kubernetes 1.37).
    over = (ContainerState.TERMINATED, ContainerState.WAITING) if pod.ended else (ContainerState.TERMINATED,)
    if not containers or any(container.state not in over for container in containers):
        return None
    return pod.last_finished_at


def _latest_end(job: JobObservation | None, pod: PodObservation, younger: tuple[PodObservation, ...]) -> float:
    """Give the latest moment at which a pod whose end nobody saw can have ended; infinity when nothing bounds it.

    A replacement starts after its predecessor has ended (podReplacementPolicy Failed), and so does the Job's end.
    """
    bounds = [float("inf")]
    if pod.ended or pod.gone:
        if job is not None and job.final is not None and job.final.changed_at is not None:
            bounds.append(job.final.changed_at)
        one_at_a_time = job is not None and job.parallelism in (None, 1)
        replacements = [p.created_at for p in younger if p.created_at is not None and one_at_a_time]
        bounds += replacements[:1]
    return min(bounds)
