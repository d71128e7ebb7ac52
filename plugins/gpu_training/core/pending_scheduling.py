"""Why a pod has no node: gates, the scheduler's words, what the nodes are like, and what the autoscaler does."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpu_training.core.autoscaler_words import ScalingState
from gpu_training.core.kubelet_words import parse_kubelet_event
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_growth import Growth, growth_of
from gpu_training.core.pending_nodes import of_nodes
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.pending_words import of_words, whole_pod_reason
from gpu_training.core.pod_demand import DEFAULT_SCHEDULER
from gpu_training.core.pods import Condition, PodObservation
from gpu_training.core.sayings import plain
from gpu_training.core.scheduler_words import Preemption, SchedulerWords, parse_scheduler

SILENT_S: Final = 2.0
"""The scheduler speaks within a tenth of a second (measured with Kubernetes 1.37)."""

_PREEMPTED: Final = "PreemptionByScheduler"
_TAKEN: Final = (Cause.GPUS_TAKEN, Cause.CPU_OR_MEMORY_TAKEN)


def of_unscheduled(pod: PodObservation, view: View) -> Report:
    """Give why a pod has no node."""
    condition = pod.condition("PodScheduled")
    if condition is not None and condition.reason == "SchedulingGated":
        return _gated(condition, view)
    if condition is None or condition.holds or not condition.message.strip():
        return _silent(pod, view)
    words = parse_scheduler(condition.message)
    found = _found(pod, words, view)
    return replace(found, words=plain(condition.message, 1000))


def _gated(condition: Condition, view: View) -> Report:
    gates = ", ".join(view.demand.gates) if view.demand is not None and view.demand.gates else "which it does not name"
    return Report(
        cause=Cause.SCHEDULING_GATED,
        cure=Cure.WAITING,
        summary=f"The pod is held by scheduling gates: {plain(gates)}.",
        remedy="Who set the gate lifts it: a queue or a webhook of the cluster; ask whoever runs it if nothing does.",
        words=plain(condition.message, 1000),
    )


def _silent(pod: PodObservation, view: View) -> Report:
    scheduler = view.demand.scheduler if view.demand is not None else DEFAULT_SCHEDULER
    if not view.older_than(pod.created_at, SILENT_S):
        return Report(
            cause=Cause.WAITING, cure=Cure.TRANSIENT, summary="The pod waits for the scheduler.", remedy="Wait."
        )
    if scheduler != DEFAULT_SCHEDULER:
        return Report(
            cause=Cause.SCHEDULER_SILENT,
            cure=Cure.WAITING,
            summary=f"No scheduler has looked at the pod: it names the scheduler {plain(scheduler)}.",
            remedy=f"Check that the scheduler {plain(scheduler)} runs, or take schedulerName out of the pod template.",
        )
    return Report(
        cause=Cause.SCHEDULER_SILENT,
        cure=Cure.TRANSIENT,
        summary="No scheduler has looked at the pod: the cluster's scheduler is down or far behind.",
        remedy="Whoever runs the cluster checks kube-scheduler; the pod goes on by itself once it is back.",
    )


def _found(pod: PodObservation, words: SchedulerWords | None, view: View) -> Report:
    growth = growth_of(pod, view)
    if words is not None and words.preemption in (Preemption.FOUND_VICTIMS, Preemption.WAITS_FOR_VICTIMS):
        return _preempting(words)
    whole = whole_pod_reason(words)
    if whole is not None:
        return _with_claim(of_words(words, growth, whole), pod, view)
    found = of_nodes(words, growth, view)
    if found is None:
        found = of_words(words, growth, None)
    return _after_preemption(pod, _grown(found, growth), view)


def _preempting(words: SchedulerWords) -> Report:
    where = f" on {words.node}" if words.node else ""
    victims = f"{words.victims} pod{'s' if words.victims != 1 else ''}" if words.victims else "Pods"
    verb = "is" if words.victims == 1 else "are"
    return Report(
        cause=Cause.PREEMPTING,
        cure=Cure.WAITING,
        summary=f"{victims} of lower priority {verb} being ended{where} to make room.",
        remedy="Wait: their grace period bounds it.",
    )


def _with_claim(report: Report, pod: PodObservation, view: View) -> Report:
    """Give the report with what is said of the volume claim that is not bound, which the scheduler does not know."""
    claims = view.demand.claims if view.demand is not None else ()
    if report.cause is not Cause.VOLUME_UNBOUND or not claims:
        return report
    for event in view.events.about_claims(claims, int(pod.created_at or 0.0)):
        words = parse_kubelet_event(event.reason, event.message)
        if words is not None:
            summary = f"Volume claim {plain(event.name)} is not bound. {words.summary}"
            return replace(report, summary=summary, remedy=words.remedy)
    return report


def _grown(report: Report, growth: Growth) -> Report:
    """Give the report with what the autoscaler does, where that decides."""
    if growth.state is ScalingState.SCALING_UP:
        return replace(
            report,
            cause=Cause.AUTOSCALER_SCALING_UP,
            cure=Cure.TRANSIENT,
            summary=f"{growth.clause.rstrip('.')}. Until then: {_lowered(report.summary)}",
            remedy="Wait until the node has joined and its device plugin offers the GPUs.",
        )
    if growth.state is ScalingState.AT_MAXIMUM:
        return replace(
            report,
            cause=Cause.AUTOSCALER_AT_MAXIMUM,
            cure=Cure.WAITING,
            summary=f"{growth.clause.rstrip('.')}. {report.summary}",
            remedy="Wait until GPUs are freed, or have whoever runs the cluster raise the limit of that pool.",
        )
    return report


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _after_preemption(pod: PodObservation, report: Report, view: View) -> Report:
    earlier = [other for other in view.observation.pods if other.uid != pod.uid and (other.ended or other.gone)]
    last = earlier[-1] if earlier else None
    why = last.disruption if last is not None else None
    if last is None or why is None or why.reason != _PREEMPTED or report.cause not in _TAKEN:
        return report
    where = f" on {last.node}" if last.node else ""
    return replace(
        report,
        cause=Cause.PREEMPTED,
        summary=f"Pod {last.name} made way for a pod of higher priority{where}. {report.summary}",
    )
