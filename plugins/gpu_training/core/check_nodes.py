"""Whether the cluster has nodes for a training, and whether they offer the GPUs that they have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_training.core.check_up import Check, State
from gpu_training.core.fitting import Kind, Survey, count_nodes
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.nearest_fit import nearest_fit
from gpu_training.core.node_index import index_of, promise_of, whole_of
from gpu_training.core.node_obstacles import obstacles_of_node
from gpu_training.core.node_sentences import remedy_of, summary_of
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_growth import Growth
from gpu_training.core.pod_demand import Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.surroundings import Autoscaler, Node, Tenant

_SHOWN: Final = 3
_MAY_ADD: Final = {
    Autoscaler.KARPENTER: "Karpenter may add a node; whether it does is seen when a pod waits.",
    Autoscaler.CLUSTER_AUTOSCALER: "The cluster-autoscaler may add a node; whether it does is seen when a pod waits.",
    Autoscaler.UNKNOWN: "Whether an autoscaler would add a node could not be looked at.",
    Autoscaler.NONE: "",
}
_PASSES: Final = (
    Cause.GPUS_TAKEN,
    Cause.CPU_OR_MEMORY_TAKEN,
    Cause.NODES_UNDER_PRESSURE,
    Cause.NODES_NOT_READY,
    Cause.NODES_CORDONED,
)
"""What ends by itself, or is somebody's passing work on a node: trainings wait for it."""
_ADD_NODES: Final = "add nodes with GPUs, and NVIDIA's device plugin, which has them offered"
_REPAIR_PLUGIN: Final = "repair NVIDIA's device plugin on the node: its pod there, then the driver"


def check_nodes(
    look_up: LookUp,
    nodes: tuple[Node, ...],
    tenants: tuple[Tenant, ...],
    demand: Demand,
    *,
    subject: str,
    autoscaler: Autoscaler = Autoscaler.NONE,
    all_tenants: bool = True,
) -> Check:
    """Tell whether some node can take a pod of the training, now or once others have ended.

    :param look_up: how the list of nodes was answered.
    :param autoscaler: which may add the node that is missing.
    :param all_tenants: whether the tenants are those of all namespaces.
    """

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="nodes", subject=subject, state=state, said=said, remedy=remedy)

    if not look_up.found:
        hidden = look_up.answer is Answer.FORBIDDEN
        why = "nodes may not be read by this account" if hidden else f"nodes were not read: {look_up.said}"
        return check(State.UNKNOWN, why, "grant list on nodes, as include/manifests does, or look with kubectl")
    survey = count_nodes(index_of(nodes, tenants if all_tenants else None), demand)
    if not survey.kinds:
        return check(_worst(autoscaler), "the cluster has no nodes", _ADD_NODES)
    nearest = survey.kinds[0]
    if nearest.hardest is None:
        unseen = "" if all_tenants else ", as far as may be seen: pods of other namespaces may not be read"
        return check(State.OK, f"the training fits on {_names(survey, nearest)} now{unseen}")
    change = nearest_fit(survey, demand)
    remedy = remedy_of(nearest, nearest.hardest, _growth(autoscaler), change)
    counts = "; ".join(f"{each.count} × {each.reason}" for each in survey.counts)
    others = f" All nodes: {counts}" if len(survey.counts) > 1 else ""
    return check(
        State.WARNING if nearest.hardest.cause in _PASSES else _worst(autoscaler),
        f"{summary_of(nearest, nearest.hardest, survey, demand)}{others}",
        f"{change}. {remedy}" if change else remedy,
    )


def _growth(autoscaler: Autoscaler) -> Growth:
    return Growth(said=None, hopeless=False, clause=_MAY_ADD[autoscaler])


def _worst(autoscaler: Autoscaler) -> State:
    """An autoscaler may add the node that is missing; whether it will, is seen when a pod waits."""
    return State.WARNING if autoscaler in (Autoscaler.KARPENTER, Autoscaler.CLUSTER_AUTOSCALER) else State.BROKEN


def _names(survey: Survey, kind: Kind) -> str:
    return _listed([survey.index.nodes[place].name for place in kind.places[: _SHOWN + 1]], len(kind.places))


def _listed(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {count - _SHOWN} more" if count > _SHOWN else shown


def check_device_plugin(
    nodes: Sequence[Node], demand: Demand, *, subject: str, autoscaler: Autoscaler = Autoscaler.NONE
) -> Check:
    """Tell whether the nodes that the training asks for by its labels offer all GPUs that they have."""

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="device-plugin", subject=subject, state=state, said=said, remedy=remedy)

    meant = [node for node in nodes if not _is_left_out(node, demand)]
    offering = [node for node in meant if whole_of(node, GPU_RESOURCE)]
    down = [node.name for node in meant if promise_of(node) > whole_of(node, GPU_RESOURCE)]
    if down:
        said = f"GPUs that are there are not offered on {_listed(down, len(down))}"
        state = State.WARNING if len(offering) > len([n for n in offering if n.name in down]) else State.BROKEN
        return check(state, said, _REPAIR_PLUGIN)
    if not meant:
        return check(State.UNKNOWN, "no node has the labels that the training asks for", "see nodes")
    if not offering:
        remedy = "install NVIDIA's device plugin or its GPU operator there, or select the nodes that have GPUs"
        return check(_worst(autoscaler), f"none of the {len(meant)} nodes that are meant offers {GPU_RESOURCE}", remedy)
    return check(State.OK, f"all GPUs are offered on {_listed([n.name for n in offering], len(offering))}")


def _is_left_out(node: Node, demand: Demand) -> bool:
    return any(each.cause is Cause.LABEL_NOT_MATCHED for each in obstacles_of_node(node, demand))
