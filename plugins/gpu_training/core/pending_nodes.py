"""Why no node takes a pod, by what the nodes are like: the cause is that of the nodes nearest to taking it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from gpu_training.core.amount_text import amount_text
from gpu_training.core.fitting import Kind, Survey
from gpu_training.core.nearest_fit import gpus, holders_of, nearest_fit, some_names, toleration_text
from gpu_training.core.node_index import UNIT
from gpu_training.core.node_obstacles import Obstacle, taint_text
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_growth import Growth
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.pending_words import STRUCTURAL, of_words, other_reason
from gpu_training.core.pod_demand import Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.scheduler_words import SchedulerWords

_TAKEN: Final = (Cause.GPUS_TAKEN, Cause.CPU_OR_MEMORY_TAKEN)
_HEALS: Final = (Cause.NODES_NOT_READY, Cause.NODES_UNDER_PRESSURE)
_LIMITS: Final = "training.resources.limits"


def of_nodes(words: SchedulerWords | None, growth: Growth, view: View) -> Report | None:
    """Give why no node takes a pod; None where nodes or demand are not known.

    :param words: what the scheduler says, which decides where a node would take the pod by what is known here.
    """
    survey, demand = view.survey, view.demand
    if survey is None or demand is None:
        return None
    if not survey.kinds:
        return _none_at_all(growth)
    nearest = survey.kinds[0]
    if nearest.hardest is None:
        return _by_words(words, growth, survey, demand)
    cause = nearest.hardest.cause
    report = Report(
        cause=cause,
        cure=_cure(cause, growth, survey),
        summary=_summary(nearest, nearest.hardest, survey, demand),
        remedy=_remedy(nearest, nearest.hardest, growth, view),
        nodes=survey.counts,
        nearest=nearest_fit(survey, demand),
    )
    if cause not in _TAKEN:
        return report
    return replace(report, holders=holders_of(survey, _wanted(survey), view.job.namespace, view.own))


def _wanted(survey: Survey) -> list[Kind]:
    return [kind for kind in survey.kinds if kind.obstacles and kind.obstacles[0].cause in _TAKEN]


def _none_at_all(growth: Growth) -> Report:
    return Report(
        cause=Cause.NO_GPU_NODES,
        cure=Cure.NEVER if growth.hopeless else Cure.WAITING,
        summary="The cluster has no nodes.",
        remedy=" ".join(part for part in ("Whoever runs the cluster adds GPU nodes.", growth.clause) if part),
    )


def _by_words(words: SchedulerWords | None, growth: Growth, survey: Survey, demand: Demand) -> Report:
    """Give why a pod has no node although one would take it: something that nodes do not tell, or pods that can not be
    seen."""
    reason = other_reason(words)
    if reason is not None:
        elsewhere = reason.cause is Cause.VOLUME_ELSEWHERE
        others_may = any(kind.hardest is not None and kind.hardest.cause not in STRUCTURAL for kind in survey.kinds)
        cure = Cure.NEVER if elsewhere and growth.hopeless and not others_may else reason.cure
        return replace(of_words(words, growth, reason), nodes=survey.counts, cure=cure)
    fits = survey.kinds[0].places
    taken = [each for each in words.reasons if each.resource] if words is not None else []
    if taken:
        resource = taken[0].resource
        gpu = taken[0].cause in (Cause.GPUS_TAKEN, Cause.TOO_FEW_GPUS)
        what = f"{gpus(demand.gpus)}" if gpu else resource
        return Report(
            cause=Cause.GPUS_TAKEN if gpu else Cause.CPU_OR_MEMORY_TAKEN,
            cure=Cure.WAITING,
            summary=f"Waiting for {what}: the scheduler finds too little {resource} free, and the pods that hold it on "
            f"{some_names(survey, fits)} could not all be seen.",
            remedy=_wait_for_others(growth),
            nodes=survey.counts,
        )
    return Report(
        cause=Cause.UNSCHEDULABLE,
        cure=Cure.WAITING,
        summary=f"By what is seen of it, {some_names(survey, fits)} could take the pod now; the scheduler has not said "
        "so yet.",
        remedy="Wait for the scheduler's next try; if it stays so, read its words.",
        nodes=survey.counts,
    )


def _cure(cause: Cause, growth: Growth, survey: Survey) -> Cure:
    if cause in _HEALS:
        return Cure.TRANSIENT
    if cause not in STRUCTURAL:
        return Cure.WAITING
    return Cure.NEVER if growth.hopeless and not _may_become_fit(survey) else Cure.WAITING


def _may_become_fit(survey: Survey) -> bool:
    """Whether a node is on its way up that may offer GPUs once its device plugin runs."""
    hopes = (Cause.NODES_NOT_READY, Cause.NO_GPU_NODES)
    return any(len(kind.obstacles) > 1 and all(each.cause in hopes for each in kind.obstacles) for kind in survey.kinds)


def _summary(nearest: Kind, hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    where = some_names(survey, nearest.places)
    match hardest.cause:
        case Cause.GPUS_TAKEN | Cause.CPU_OR_MEMORY_TAKEN:
            return _taken(hardest, survey, demand)
        case Cause.NO_GPU_NODES:
            return f"No node offers {hardest.resource}: {len(survey.index.nodes)} were looked at."
        case Cause.TOO_FEW_GPUS | Cause.TOO_LITTLE_CPU_OR_MEMORY:
            return _too_small(hardest, survey, demand)
        case Cause.TAINT_NOT_TOLERATED if hardest.taint is not None:
            taints = ", ".join(taint_text(o.taint) for o in nearest.obstacles if o.taint is not None)
            return f"The taint {taints} of {where} is not tolerated, and no other node is nearer to taking it."
        case Cause.LABEL_NOT_MATCHED:
            return f"No node matches: {where} {hardest.reason}."
        case _:
            others = " and ".join(each.reason for each in nearest.obstacles[1:3])
            return f"No node can take it now: {where} {hardest.reason}{f' and {others}' if others else ''}."


def _taken(hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    resource = hardest.resource
    kinds = [kind for kind in _wanted(survey) if any(each.resource == resource for each in kind.obstacles)]
    places = [place for kind in kinds for place in kind.places]
    nodes = f"{len(places)} matching node{'s' if len(places) != 1 else ''}"
    if resource != GPU_RESOURCE:
        amount = amount_text(resource, demand.requests[resource])
        if not any(each.cause is Cause.CPU_OR_MEMORY_TAKEN and each.resource == resource for each in (hardest,)):
            return f"Waiting for {amount} {resource}: none of {nodes} has so much free."
        most = amount_text(resource, Fraction(max(0, *(survey.free[resource][place] for place in places)), UNIT))
        return f"Waiting for {amount} {resource}: of {nodes} with free GPUs none has so much free; the most is {most}."
    whole = survey.index.table.whole(resource)
    total = sum(whole[place] for place in places) // UNIT
    free = [max(0, survey.free[resource][place]) // UNIT for place in places]
    asked = gpus(demand.gpus)
    if not any(free):
        return f"Waiting for {asked}: all {total} {resource} of {nodes} are taken."
    return (
        f"Waiting for {asked} on one node: {sum(free)} of {total} {resource} of {nodes} are free, at most {max(free)} "
        "of them on one."
    )


def _too_small(hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    resource = hardest.resource
    whole = survey.index.table.whole(resource)
    kinds = [kind for kind in survey.kinds if kind.hardest is not None and kind.hardest.cause is hardest.cause]
    most = max(whole[place] for kind in kinds for place in kind.places)
    asked = amount_text(resource, demand.requests[resource])
    has = amount_text(resource, Fraction(most, UNIT))
    return f"{asked} {resource} are asked for on one node, and no node that matches has more than {has}."


def _wait_for_others(growth: Growth) -> str:
    parts = (
        "It starts when others have ended.",
        growth.clause,
        f"To run sooner, ask for less in {_LIMITS}, or for a higher training.priority_class.",
    )
    return " ".join(part for part in parts if part)


def _remedy(nearest: Kind, hardest: Obstacle, growth: Growth, view: View) -> str:
    match hardest.cause:
        case Cause.GPUS_TAKEN | Cause.CPU_OR_MEMORY_TAKEN:
            return _wait_for_others(growth)
        case Cause.NODES_UNDER_PRESSURE | Cause.NODES_NOT_READY:
            advice = "Wait until the node has recovered; whoever runs the cluster looks at it if it does not."
        case Cause.NODES_CORDONED:
            advice = "Whoever runs the cluster uncordons the node (kubectl uncordon), or adds another one."
        case Cause.DEVICE_PLUGIN_DOWN:
            advice = "Whoever runs the cluster looks at the GPU device plugin and the driver on that node."
        case Cause.TAINT_NOT_TOLERATED:
            wanted = ", ".join(toleration_text(o.taint) for o in nearest.obstacles if o.taint is not None)
            advice = f"Add {wanted} to training.tolerations, if the training may run there."
        case Cause.LABEL_NOT_MATCHED:
            advice = "Correct training.node_selector, or have whoever runs the cluster label the nodes."
        case Cause.TOO_FEW_GPUS | Cause.TOO_LITTLE_CPU_OR_MEMORY:
            advice = f"Ask for no more than one node has, in {_LIMITS}, or have larger nodes added."
        case _:
            advice = (
                "Whoever runs the cluster adds GPU nodes, or installs the GPU device plugin on those that are there."
            )
    return " ".join(part for part in (advice, growth.clause) if part)
