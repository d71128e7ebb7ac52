"""Why nodes can not take a pod now: every reason, not only the first that the scheduler meets.

A node is told by the hardest of its obstacles, since all of them have to go; nodes are ranked by how near they are to
taking the pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Final

from gpu_training.core.amount_text import amount_text
from gpu_training.core.node_index import NodeIndex, promise_of, whole_of
from gpu_training.core.node_obstacles import Obstacle, obstacles_of_node
from gpu_training.core.node_usage import units, units_asked
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_report import NodeCount
from gpu_training.core.pod_demand import PODS, Demand
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sameness import Memo
from gpu_training.core.scheduler_sayings import is_gpu
from gpu_training.core.surroundings import Node

NEAREST_FIRST: Final = (
    Cause.CPU_OR_MEMORY_TAKEN,
    Cause.GPUS_TAKEN,
    Cause.NODES_UNDER_PRESSURE,
    Cause.NODES_NOT_READY,
    Cause.DEVICE_PLUGIN_DOWN,
    Cause.NODES_CORDONED,
    Cause.TAINT_NOT_TOLERATED,
    Cause.TOO_FEW_GPUS,
    Cause.TOO_LITTLE_CPU_OR_MEMORY,
    Cause.LABEL_NOT_MATCHED,
    Cause.NO_GPU_NODES,
)
"""What can keep a pod off a node, by how near it is to a cure: others give way, the node heals, somebody acts, the
training asks for something else, the cluster gets another node."""

_RANK: Final = {cause: rank for rank, cause in enumerate(NEAREST_FIRST)}

_ANSWERS_KEPT: Final = 32

_FITS, _TAKEN, _TOO_SMALL, _HAS_NONE, _OFFERS_TOO_FEW = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Nodes that have the same obstacles.

    :param obstacles: the hardest one first; none on nodes that would take the pod now.
    :param places: of the nodes, in the index.
    """

    obstacles: tuple[Obstacle, ...]
    places: tuple[int, ...]

    @property
    def hardest(self) -> Obstacle | None:
        return self.obstacles[0] if self.obstacles else None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """All nodes, by what keeps the pod off them. Trainings that ask for the same share it, and what is made of it.

    :param kinds: those nearest to taking the pod first.
    :param free: of each resource that is asked for and each node, in billionths.
    :param all_seen: whether all pods on the nodes were: else less may be free.
    :ivar answers: what was made of it before.
    """

    index: NodeIndex
    kinds: tuple[Kind, ...]
    free: Mapping[str, Sequence[int]]
    all_seen: bool = True
    answers: Memo = field(default_factory=lambda: Memo(_ANSWERS_KEPT), init=False, compare=False, repr=False)

    @cached_property
    def counts(self) -> tuple[NodeCount, ...]:
        """The nodes counted by the hardest obstacle of each; those that would take the pod are left out."""
        found: Counter[tuple[Cause, str]] = Counter()
        for kind in self.kinds:
            if kind.hardest is not None:
                found[kind.hardest.cause, kind.hardest.reason] += len(kind.places)
        ranked = sorted(found.items(), key=lambda item: (_RANK[item[0][0]], -item[1], item[0][1]))
        return tuple(NodeCount(reason=reason, count=count, cause=cause) for (cause, reason), count in ranked)


def count_nodes(
    index: NodeIndex, demand: Demand, own: Collection[tuple[str, str]] = (), *, all_seen: bool = True
) -> Survey:
    """Give all nodes by what keeps a pod off them; the same survey to all that demand the same of a node.

    :param own: namespaces and names of the training's own pods, to which a node may be nominated.
    :param all_seen: whether the tenants in the index are all there are.
    """
    mine = index.usage.claimants.intersection(own) if index.usage is not None else frozenset[tuple[str, str]]()
    seen = all_seen and index.usage is not None
    return index.surveys.once((_asked_of(demand), mine, seen), lambda: _counted(index, demand, mine, seen))


def _asked_of(demand: Demand) -> Hashable:
    """Give all of a demand that decides where it fits, and in which order the obstacles of a node are told."""
    requests, selector = frozenset(demand.requests.items()), tuple(demand.selector.items())
    return requests, selector, demand.terms, demand.tolerations, demand.priority


def _counted(index: NodeIndex, demand: Demand, own: frozenset[tuple[str, str]], all_seen: bool) -> Survey:
    names = frozenset(name for term in demand.terms or () for each in term.fields for name in each.values)
    labels = frozenset([*demand.selector, *(each.key for term in demand.terms or () for each in term.labels)])
    numbers, firsts = index.table.groups(labels, names)
    resources = _in_order(demand)
    free = {resource: index.free(resource, demand.priority, own) for resource in resources}
    states = [_states(index, resource, free[resource], demand.requests[resource]) for resource in resources]
    marks = list(zip(numbers, *states, strict=True))
    still = [obstacles_of_node(node, demand) for node in firsts]
    by_mark = {mark: _hardest_first((*still[mark[0]], *_short(resources, mark[1:], demand))) for mark in set(marks)}
    places: dict[tuple[Obstacle, ...], list[int]] = {}
    of_mark = {mark: places.setdefault(found, []) for mark, found in by_mark.items()}
    for place, mark in zip(index.table.places, marks, strict=True):
        of_mark[mark].append(place)
    kinds = [Kind(obstacles=found, places=tuple(at)) for found, at in places.items()]
    return Survey(index=index, kinds=tuple(sorted(kinds, key=_distance)), free=free, all_seen=all_seen)


def obstacles(node: Node, free: Mapping[str, Fraction], demand: Demand) -> tuple[Obstacle, ...]:
    """Give every reason why a node can not take a pod now, the hardest first.

    :param free: what nobody has requested on the node, by resource; what is absent is used up.
    """
    resources = _in_order(demand)
    states = []
    for resource in resources:
        whole = whole_of(node, resource)
        left = units(free[resource]) if resource in free else whole if resource not in node.allocatable else 0
        promised = promise_of(node) if resource == GPU_RESOURCE else 0
        states += _states_of([left], [whole], [promised], units_asked(demand.requests[resource]))
    return _hardest_first((*obstacles_of_node(node, demand), *_short(resources, states, demand)))


def _in_order(demand: Demand) -> list[str]:
    asked = [resource for resource, amount in demand.requests.items() if amount > 0]
    return sorted(asked, key=lambda resource: (resource != GPU_RESOURCE, not is_gpu(resource), resource))


def _hardest_first(found: Sequence[Obstacle]) -> tuple[Obstacle, ...]:
    return tuple(sorted(found, key=lambda each: -_RANK[each.cause]))


def _distance(kind: Kind) -> tuple[int, int, int, int]:
    rank = _RANK[kind.hardest.cause] + 1 if kind.hardest is not None else 0
    return rank, len(kind.obstacles), -len(kind.places), kind.places[0]


def _states(index: NodeIndex, resource: str, free: list[int], amount: Fraction) -> list[int]:
    whole = index.table.whole(resource)
    promised = index.table.promised if resource == GPU_RESOURCE else whole
    return _states_of(free, whole, promised, units_asked(amount))


def _states_of(free: list[int], whole: list[int], promised: list[int], asked: int) -> list[int]:
    return [
        _FITS
        if left >= asked
        else _TAKEN
        if all_ >= asked
        else _OFFERS_TOO_FEW
        if more >= asked
        else _TOO_SMALL
        if all_ or more
        else _HAS_NONE
        for left, all_, more in zip(free, whole, promised, strict=True)
    ]


def _short(resources: Sequence[str], states: Sequence[int], demand: Demand) -> list[Obstacle]:
    return [
        _shortage(resource, state, demand.requests[resource])
        for resource, state in zip(resources, states, strict=True)
        if state != _FITS
    ]


def _shortage(resource: str, state: int, asked: Fraction) -> Obstacle:
    amount, gpu = amount_text(resource, asked), is_gpu(resource)
    if state == _TAKEN:
        cause = Cause.GPUS_TAKEN if gpu else Cause.CPU_OR_MEMORY_TAKEN
        reason = "holds as many pods as it may" if resource == PODS else f"has less than {amount} {resource} free"
    elif state == _OFFERS_TOO_FEW:
        cause, reason = (
            Cause.DEVICE_PLUGIN_DOWN,
            "has GPUs that its device plugin does not offer",
        )
    elif state == _HAS_NONE and gpu:
        cause, reason = Cause.NO_GPU_NODES, f"has no {resource}"
    else:
        cause = Cause.TOO_FEW_GPUS if gpu else Cause.TOO_LITTLE_CPU_OR_MEMORY
        reason = f"has less than {amount} {resource} in all"
    return Obstacle(cause=cause, reason=reason, resource=resource)
