"""What keeps a pod off one node, whatever is free there: labels, taints, and the state that the node is in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gpu_training.core.node_matching import holds, in_words, term_holds, untolerated
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pod_demand import Demand
from gpu_training.core.surroundings import Node, Taint

_NODE: Final = "node.kubernetes.io/"
_NOT_READY: Final = (Cause.NODES_NOT_READY, "is not ready")
_NOT_YET: Final = (Cause.NODES_NOT_READY, "is not set up yet")
_LEAVING: Final = (Cause.NODES_CORDONED, "is about to be removed by the autoscaler")
# Set by Kubernetes and autoscalers themselves: nobody is meant to tolerate them.
# https://kubernetes.io/docs/reference/labels-annotations-taints/ https://karpenter.sh/docs/concepts/disruption/
_TAINTS_OF_A_STATE: Final = {
    _NODE + "not-ready": _NOT_READY,
    _NODE + "unreachable": (Cause.NODES_NOT_READY, "is not ready: its kubelet is silent"),
    _NODE + "network-unavailable": (Cause.NODES_NOT_READY, "has no network"),
    _NODE + "unschedulable": (Cause.NODES_CORDONED, "is cordoned"),
    _NODE + "memory-pressure": (Cause.NODES_UNDER_PRESSURE, "is under MemoryPressure"),
    _NODE + "disk-pressure": (Cause.NODES_UNDER_PRESSURE, "is under DiskPressure"),
    _NODE + "pid-pressure": (Cause.NODES_UNDER_PRESSURE, "is under PIDPressure"),
    _NODE + "out-of-service": (Cause.NODES_NOT_READY, "is out of service"),
    "node.cloudprovider.kubernetes.io/uninitialized": _NOT_YET,
    "node.cloudprovider.kubernetes.io/shutdown": (Cause.NODES_NOT_READY, "is shut down"),
    "karpenter.sh/unregistered": _NOT_YET,
    "karpenter.sh/disrupted": _LEAVING,
    "karpenter.sh/disruption": _LEAVING,
    "ToBeDeletedByClusterAutoscaler": _LEAVING,
}
# Taints that agents of a node take away once they run; teams have more of them, so the names' shapes count.
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#how-can-i-use-startup-taints
_OF_STARTUP: Final = re.compile(
    r"(?:startup|status|ignore)-taint\.cluster-autoscaler\.kubernetes\.io/.*|[^/]{1,253}/(?:agent-)?not-ready"
)
_UNREADY_TAINTS: Final = (_NODE + "not-ready", _NODE + "unreachable")
# Memory pressure by itself keeps no pod out that requests memory, as all of ours do; its taint, if there is one, does.
_TAINT_OF_PRESSURE: Final = {"DiskPressure": _NODE + "disk-pressure", "PIDPressure": _NODE + "pid-pressure"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a node can not take a pod now.

    :param reason: of the node, such as `does not have the label pool=a100`.
    :param resource: of which there is too little; empty for another reason.
    :param taint: that is not tolerated.
    :param label: key that the node selector asks for and the node does not have with that value.
    :param by_name: whether the node's name alone is what the node affinity leaves out.
    """

    cause: Cause
    reason: str
    resource: str = ""
    taint: Taint | None = None
    label: str = ""
    by_name: bool = False


def obstacles_of_node(node: Node, demand: Demand) -> list[Obstacle]:
    """Give why a node can not take a pod, room apart."""
    return [*_of_its_labels(node, demand), *_of_its_taints(node, demand), *_of_its_state(node, demand)]


def _of_its_labels(node: Node, demand: Demand) -> list[Obstacle]:
    found = [
        Obstacle(cause=Cause.LABEL_NOT_MATCHED, reason=f"does not have the label {key}={value}", label=key)
        for key, value in demand.selector.items()
        if node.labels.get(key) != value
    ]
    terms = demand.terms
    if terms is None or any(term_holds(term, node.labels, node.name) for term in terms):
        return found
    by_name = any(all(holds(each, node.labels.get(each.key)) for each in term.labels) for term in terms)
    if by_name:
        reason = "is left out by its name in the node affinity"
    else:
        asked = "; or ".join(" and ".join(map(in_words, term.labels)) for term in terms[:2] if term.labels)
        reason = f"does not match the node affinity{f' ({asked})' if asked else ''}"
    return [*found, Obstacle(cause=Cause.LABEL_NOT_MATCHED, reason=reason, by_name=by_name)]


def _of_its_taints(node: Node, demand: Demand) -> list[Obstacle]:
    found = []
    for taint in untolerated(node.taints, demand.tolerations):
        state = _TAINTS_OF_A_STATE.get(taint.key) or (_NOT_YET if _OF_STARTUP.fullmatch(taint.key) else None)
        if state is not None:
            found.append(Obstacle(cause=state[0], reason=state[1]))
        else:
            reason = f"taint {taint_text(taint)} is not tolerated"
            found.append(Obstacle(cause=Cause.TAINT_NOT_TOLERATED, reason=reason, taint=taint))
    return list(dict.fromkeys(found))


def taint_text(taint: Taint) -> str:
    """Give a taint as kubectl writes it, such as `dedicated=ingest:NoSchedule`."""
    return f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"


def _of_its_state(node: Node, demand: Demand) -> list[Obstacle]:
    """Give what a node says of itself before its taints, which follow within seconds, do."""
    tainted = {taint.key for taint in node.taints}
    found = []
    if node.ready is False and not tainted.intersection(_UNREADY_TAINTS):
        found.append(Obstacle(cause=_NOT_READY[0], reason=_NOT_READY[1]))
    if node.cordoned and _NODE + "unschedulable" not in tainted and not _tolerates_cordon(demand):
        found.append(Obstacle(cause=Cause.NODES_CORDONED, reason="is cordoned"))
    for pressure in node.pressures:
        key = _TAINT_OF_PRESSURE.get(pressure, "")
        if key and key not in tainted:
            found.append(Obstacle(cause=Cause.NODES_UNDER_PRESSURE, reason=_TAINTS_OF_A_STATE[key][1]))
    return found


def _tolerates_cordon(demand: Demand) -> bool:
    return not untolerated([Taint(key=_NODE + "unschedulable", effect="NoSchedule")], demand.tolerations)
