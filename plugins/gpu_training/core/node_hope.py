"""Whether a node that can not take a pod may yet become one that does: it is new, or comes back.

A node is Ready before its device plugin has registered, and before feature discovery has labelled it.
"""

from __future__ import annotations

from typing import Final

from gpu_training.core.fitting import Kind, Survey
from gpu_training.core.node_matching import holds, names_hold
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pod_demand import Demand, Requirement, Term
from gpu_training.core.surroundings import Node

YOUNG_S: Final = 600.0
"""A driver that is built on the node takes this long at most before GPUs are offered and labels are set."""

_COMES_BACK: Final = frozenset({Cause.NODES_NOT_READY, Cause.NO_GPU_NODES})
_STAYS: Final = frozenset({Cause.TAINT_NOT_TOLERATED, Cause.TOO_FEW_GPUS, Cause.TOO_LITTLE_CPU_OR_MEMORY})
_MET_BY_A_LABEL: Final = ("In", "Exists", "Gt", "Lt")


def may_become_fit(survey: Survey, demand: Demand, now: float) -> bool:
    """Whether a node may still offer GPUs, or get a label, that it lacks.

    :param demand: of the survey.
    :param now: seconds since 1970.
    """
    if any(_causes(kind) == _COMES_BACK for kind in survey.kinds):
        return True
    newest = survey.answers.once("newest that may become fit", lambda: _newest(survey, demand))
    return newest is not None and now - newest < YOUNG_S


def _causes(kind: Kind) -> set[Cause]:
    return {each.cause for each in kind.obstacles}


def _newest(survey: Survey, demand: Demand) -> float | None:
    """Give when the newest node joined that lacks only what comes later."""
    places = (place for kind in survey.kinds if not _causes(kind) & _STAYS for place in kind.places)
    nodes = (survey.index.nodes[place] for place in places)
    joined = (node.created_at for node in nodes if node.created_at is not None and _may_be_labelled(node, demand))
    return max(joined, default=None)


def _may_be_labelled(node: Node, demand: Demand) -> bool:
    """Whether nothing that is asked for contradicts a label that the node has."""
    if any(node.labels.get(key, value) != value for key, value in demand.selector.items()):
        return False
    return demand.terms is None or any(_may_hold(term, node) for term in demand.terms)


def _may_hold(term: Term, node: Node) -> bool:
    return names_hold(term, node.name) and all(_may_meet(each, node.labels.get(each.key)) for each in term.labels)


def _may_meet(requirement: Requirement, value: str | None) -> bool:
    return holds(requirement, value) or (value is None and requirement.operator in _MET_BY_A_LABEL)
