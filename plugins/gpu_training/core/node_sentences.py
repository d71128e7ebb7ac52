"""Sentences about nodes that do not take a pod: what is the matter with those nearest to it, and what to do."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from gpu_training.core.amount_text import amount_of, amount_text
from gpu_training.core.fitting import Kind, Survey
from gpu_training.core.nearest_fit import TOLERATIONS, gpus, on_nodes, toleration_text
from gpu_training.core.node_obstacles import Obstacle, taint_text
from gpu_training.core.node_usage import UNIT
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_growth import Growth
from gpu_training.core.pod_demand import PODS, Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sameness import Same

_LIMITS: Final = "training.resources.limits"
_TAKEN: Final = (Cause.GPUS_TAKEN, Cause.CPU_OR_MEMORY_TAKEN)
_ADVICE: Final = {
    Cause.NODES_UNDER_PRESSURE: "Wait until the node has room; whoever runs the cluster looks at it if it gets none.",
    Cause.NODES_NOT_READY: "Wait until the node is back; whoever runs the cluster looks at it if it stays away.",
    Cause.NODES_CORDONED: "Whoever runs the cluster uncordons the node (kubectl uncordon), or adds another one.",
    Cause.DEVICE_PLUGIN_DOWN: "Whoever runs the cluster looks at the GPU driver and the device plugin on that node.",
    Cause.TOO_FEW_GPUS: f"Ask for no more than one node has, in {_LIMITS}, or have larger nodes added.",
    Cause.TOO_LITTLE_CPU_OR_MEMORY: f"Ask for no more than one node has, in {_LIMITS}, or have larger nodes added.",
    Cause.NO_GPU_NODES: "Whoever runs the cluster adds GPU nodes, or installs the device plugin on those there are.",
}
_MOST_OFFERS: Final = 2
_HEALS: Final = (Cause.NODES_UNDER_PRESSURE, Cause.NODES_NOT_READY, Cause.DEVICE_PLUGIN_DOWN)


def summary_of(nearest: Kind, hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    """Give what keeps a pod off the nodes nearest to taking it, in one sentence.

    :param nearest: those nodes.
    :param hardest: the hardest of their obstacles.
    :param demand: of the survey.
    """
    key = "summary", Same(nearest), hardest
    return survey.answers.once(key, lambda: _summary(nearest, hardest, survey, demand))


def _summary(nearest: Kind, hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    where, who = on_nodes(survey, nearest.places), _subject(survey, nearest)
    match hardest.cause:
        case Cause.GPUS_TAKEN if hardest.resource == GPU_RESOURCE:
            return _gpus_taken(survey, demand)
        case Cause.GPUS_TAKEN | Cause.CPU_OR_MEMORY_TAKEN:
            return _taken(nearest, hardest.resource, survey, demand)
        case Cause.NO_GPU_NODES:
            offers = [f"{name} offers {resource}" for resource, name in survey.index.table.gpu_offers.items()]
            instead = f"; {' and '.join(offers[:_MOST_OFFERS])}" if offers else ""
            return f"No node offers {hardest.resource} ({len(survey.index.nodes)} looked at){instead}."
        case Cause.TOO_FEW_GPUS | Cause.TOO_LITTLE_CPU_OR_MEMORY:
            return _too_small(hardest, survey, demand)
        case Cause.TAINT_NOT_TOLERATED:
            taints = ", ".join(taint_text(o.taint) for o in nearest.obstacles if o.taint is not None)
            return f"No node takes it: the taint {taints} of {where} is not tolerated."
        case Cause.LABEL_NOT_MATCHED:
            return f"No node matches: {who} {hardest.reason}."
        case _:
            others = "".join(f", and {each.reason}" for each in nearest.obstacles[1:3])
            return f"No node can take it now: {who} {hardest.reason}{others}."


def _subject(survey: Survey, kind: Kind) -> str:
    more = len(kind.places) - 1
    first = survey.index.nodes[kind.places[0]].name
    return first if not more else f"{first} (and {more} more node{'s' if more > 1 else ''})"


def _gpus_taken(survey: Survey, demand: Demand) -> str:
    kinds = [kind for kind in survey.kinds if kind.hardest is not None and kind.hardest.cause is Cause.GPUS_TAKEN]
    places = [place for kind in kinds for place in kind.places]
    nodes = f"{len(places)} matching node{'s' if len(places) != 1 else ''}"
    whole = survey.index.table.whole(GPU_RESOURCE)
    total = sum(whole[place] for place in places) // UNIT
    free = [max(0, survey.free[GPU_RESOURCE][place]) // UNIT for place in places]
    if any(free) and not survey.all_seen:
        taken = total - sum(free)
        return f"Waiting for {gpus(demand.gpus)}: of {total} {GPU_RESOURCE} of {nodes}, {taken} or more are taken."
    if any(free):
        spread = f", at most {max(free)} of them on one" if len(places) > 1 else ""
        return (
            f"Waiting for {gpus(demand.gpus)} on one node: {sum(free)} of {total} {GPU_RESOURCE} of {nodes} "
            f"{'is' if sum(free) == 1 else 'are'} free{spread}."
        )
    all_of_them = (
        f"the only {GPU_RESOURCE} of {nodes} is" if total == 1 else f"all {total} {GPU_RESOURCE} of {nodes} are"
    )
    return f"Waiting for {gpus(demand.gpus)}: {all_of_them} taken."


def _taken(nearest: Kind, resource: str, survey: Survey, demand: Demand) -> str:
    nodes = f"{len(nearest.places)} matching node{'s' if len(nearest.places) != 1 else ''}"
    if resource == PODS:
        return f"Waiting for others to end: {nodes} with free GPUs may hold no more pods."
    most = max(survey.free[resource][place] for place in nearest.places)
    wanted = amount_of(resource, demand.requests[resource])
    return (
        f"Waiting for {wanted}: none of {nodes} has so much free, at most "
        f"{amount_text(resource, Fraction(max(0, most), UNIT))}."
    )


def _too_small(hardest: Obstacle, survey: Survey, demand: Demand) -> str:
    resource = hardest.resource
    whole = survey.index.table.whole(resource)
    kinds = [kind for kind in survey.kinds if kind.hardest is not None and kind.hardest.cause is hardest.cause]
    most = max(whole[place] for kind in kinds for place in kind.places)
    has = f"has more than {amount_text(resource, Fraction(most, UNIT))}" if most > 0 else "offers any now"
    asked = amount_of(resource, demand.requests[resource])
    return f"It asks for {asked} on one node, and no node that matches {has}."


def wait_for_others(growth: Growth) -> str:
    """Give what to do where others hold what is wanted."""
    parts = (
        "It starts when others have ended.",
        growth.clause,
        f"To run sooner, ask for less in {_LIMITS}, or for a higher training.priority_class.",
    )
    return " ".join(part for part in parts if part)


def remedy_of(nearest: Kind, hardest: Obstacle, growth: Growth, change: str) -> str:
    """Give what to do about the nodes nearest to taking a pod.

    :param change: the nearest change, which is told beside the remedy.
    """
    if hardest.cause in _TAKEN:
        return wait_for_others(growth)
    if hardest.cause is Cause.TAINT_NOT_TOLERATED:
        wanted = ", ".join(toleration_text(o.taint) for o in nearest.obstacles if o.taint is not None)
        toleration = "that toleration" if TOLERATIONS in change else f"{wanted} to {TOLERATIONS}"
        advice = f"Add {toleration} if the training may run there."
    elif hardest.cause is Cause.LABEL_NOT_MATCHED:
        advice = _relabel(hardest)
    else:
        advice = _ADVICE[hardest.cause]
    heals = hardest.cause in _HEALS and growth.said is None
    return advice if heals or not growth.clause else f"{advice} {growth.clause}"


def _relabel(hardest: Obstacle) -> str:
    if hardest.label:
        return "Correct training.node_selector, or have whoever runs the cluster label the nodes."
    if hardest.by_name:
        return (
            "Retries keep away from nodes on which an attempt failed: have the node repaired or another one added, and "
            "run the training anew."
        )
    return "Correct the node affinity in the pod template, or have whoever runs the cluster label the nodes."
