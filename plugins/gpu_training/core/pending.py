"""Why a training waits. Observation, demand, surroundings and a moment -> a report.

Total: no document makes it raise, and the same input gives the same report. Job-level causes come first where there is
no pod; of several pods the one that is worst off speaks. Events count only if they are about the very object (by UID)
and not older than the last step that it took.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pending_cause import Cure
from gpu_training.core.pending_job import of_no_pod, of_refusal, of_suspended
from gpu_training.core.pending_pod import of_lost_node, of_starting
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_scheduling import of_unscheduled
from gpu_training.core.pending_view import View
from gpu_training.core.pod_demand import Demand
from gpu_training.core.pods import ContainerState, PodObservation
from gpu_training.core.surroundings import Surroundings

_WORST_FIRST: Final = (Cure.NEVER, Cure.WAITING, Cure.TRANSIENT)


def diagnose(observation: Observation, demand: Demand | None, around: Surroundings, now: float) -> Report | None:
    """Give why a training waits; None where nothing waits: it runs, is finishing or stopping, or an attempt ended a
    moment ago and the Job is in its back-off.

    :param demand: of one of its pods, or of the Job's template; None when it is not known.
    :param now: seconds since 1970.
    """
    job = observation.job
    if job is None or observation.gone or _is_over(job):
        return None
    view = View(job=job, observation=observation, demand=demand, around=around, now=now)
    report = _report(view)
    return replace(report, hidden=around.hidden) if report is not None else None


def _is_over(job: JobObservation) -> bool:
    return job.ended or job.deleting or any(job.condition(name) for name in ("FailureTarget", "SuccessCriteriaMet"))


def _report(view: View) -> Report | None:
    job = view.job
    whole = f"Job {job.name}"
    if job.suspended or job.condition("Suspended") is not None:
        return replace(of_suspended(view), subject=whole)
    if not view.live:
        report = of_no_pod(view)
        return replace(report, subject=whole) if report is not None else None
    found = [report for report in (_of_pod(pod, view) for pod in view.live) if report is not None]
    refused = of_refusal(view) if len(view.live) < _wanted(job) else None
    if refused is not None:
        found.append(replace(refused, subject=whole))
    if any(map(_trains, view.live)):
        found = [replace(report, cure=Cure.WAITING) if not report.curable else report for report in found]
    return min(found, key=_how_well_off, default=None)


def _trains(pod: PodObservation) -> bool:
    """Whether a pod is at work: what it does is not thrown away for what another one lacks."""
    training = pod.training
    at_work = training is not None and training.state is ContainerState.RUNNING
    return at_work and not pod.deleting and pod.disruption is None


def _wanted(job: JobObservation) -> int:
    """Give how many pods a Job should have that live."""
    parallelism = job.parallelism if job.parallelism is not None else 1
    return parallelism if job.completions is None else min(parallelism, job.completions - job.succeeded)


def _how_well_off(report: Report) -> tuple[int, bool, str]:
    return _WORST_FIRST.index(report.cure), " on " in report.subject, report.subject


def _of_pod(pod: PodObservation, view: View) -> Report | None:
    training = pod.training
    if training is not None and training.state is ContainerState.TERMINATED:
        return None
    if pod.deleting or pod.disruption is not None:
        report = of_lost_node(pod, view) if pod.node else None
    elif training is not None and training.state is ContainerState.RUNNING:
        return None
    else:
        report = of_starting(pod, view) if pod.node else of_unscheduled(pod, view)
    where = f" on {pod.node}" if pod.node else ""
    return replace(report, subject=f"pod {pod.name}{where}") if report is not None else None
