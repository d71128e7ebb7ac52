"""Many nodes and what is free on them, laid out so that one look at all of them is cheap.

Built once for the nodes and tenants of a moment, however many trainings wait.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Final

from gpu_training.core.node_usage import UNIT, Usage, held_of, units
from gpu_training.core.pod_demand import PODS
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sameness import Memo, Same
from gpu_training.core.scheduler_sayings import is_gpu
from gpu_training.core.surroundings import Node, Tenant

_UNBOUNDED: Final = 10**40
_KEPT: Final = 32
_MOMENTS_KEPT: Final = 8
_SURVEYS_KEPT: Final = 64
"""Trainings of one model ask for the same, and so do most models of a team."""

_COUNT_LABELS: Final = ("nvidia.com/gpu.count", "karpenter.k8s.aws/instance-gpu-count")
_COUNT: Final = re.compile(r"[0-9]{1,4}")
_SAYS_NO: Final = ("", "0", "false", "none")
# What clouds, NVIDIA's feature discovery and node-feature-discovery put on nodes that have GPUs, driver or not.
_GPU_LABELS: Final = (
    *_COUNT_LABELS,
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
)

Groups = tuple[list[int], list[Node]]
"""The number of each node's group, and the first node of each group."""


def has_gpu_label(node: Node) -> bool:
    """Whether a node's labels say that it has GPUs, whether or not it offers them."""
    return any(node.labels.get(label, "") not in _SAYS_NO for label in _GPU_LABELS)


def whole_of(node: Node, resource: str) -> int:
    """Give what a node has of a resource in all, in billionths. One that does not say how many pods it takes is taken
    to hold any number."""
    amount = node.allocatable.get(resource)
    if amount is None:
        return _UNBOUNDED if resource == PODS else 0
    return units(amount)


def promise_of(node: Node) -> int:
    """Give how many GPUs a node has, offered or not, in billionths: by its capacity, or by its labels, of which some do
    not say how many.

    The kubelet writes a capacity of 0 of what a device plugin offered that went away more than five minutes ago:
    https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/cm/devicemanager/manager.go
    A plugin that offers the node's GPUs under another name, in parts or shared, is not away.
    """
    offered = node.capacity.get(GPU_RESOURCE)
    if offered:
        return units(offered)
    if (offered is None and not has_gpu_label(node)) or _offers_others(node):
        return 0
    counts = [node.labels.get(label, "") for label in _COUNT_LABELS]
    return next((int(count) * UNIT for count in counts if _COUNT.fullmatch(count)), _UNBOUNDED)


def _offers_others(node: Node) -> bool:
    return any("/" in resource and amount > 0 and is_gpu(resource) for resource, amount in node.allocatable.items())


def _distinct(amounts: Iterable[Fraction | None]) -> Iterable[Fraction | None]:
    """Give each object once."""
    return {id(amount): amount for amount in amounts}.values()


class NodeTable:
    """Nodes, in their order, whatever is held there."""

    def __init__(self, nodes: tuple[Node, ...]) -> None:
        self.nodes = nodes
        self._whole: dict[str, list[int]] = {}
        self._groups: dict[tuple[frozenset[str], frozenset[str]], Groups] = {}

    @cached_property
    def _by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def places(self) -> list[int]:
        """Numbers that all surveys share."""
        return list(range(len(self.nodes)))

    @cached_property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def node(self, name: str) -> Node | None:
        """Give the node of a name."""
        return self._by_name.get(name)

    def whole(self, resource: str) -> list[int]:
        """Give what each node has of a resource in all."""
        if resource not in self._whole:
            absent = _UNBOUNDED if resource == PODS else 0
            amounts = [node.allocatable.get(resource) for node in self.nodes]
            # Nodes of one kind have the same amounts, and those that were read here the same objects.
            known = {id(amount): absent if amount is None else units(amount) for amount in _distinct(amounts)}
            self._whole[resource] = [known[id(amount)] for amount in amounts]
        return self._whole[resource]

    @cached_property
    def promised(self) -> list[int]:
        """How many GPUs each node has, offered or not."""
        return [promise_of(node) for node in self.nodes]

    @cached_property
    def gpu_offers(self) -> Mapping[str, str]:
        """Resources that stand for GPUs, of whatever maker or size, and a node that offers each."""
        found: dict[str, str] = {}
        for node in self.nodes:
            for resource, amount in node.allocatable.items():
                if "/" in resource and resource not in found and amount > 0 and is_gpu(resource):
                    found[resource] = node.name
        return found

    def groups(self, keys: frozenset[str], names: frozenset[str]) -> Groups:
        """Give the nodes in groups that differ in nothing that a demand asks for beside resources.

        :param keys: of the labels that are asked for.
        :param names: of the nodes that are asked for.
        """
        found = self._groups.get((keys, names))
        if found is None:
            if len(self._groups) >= _KEPT:
                self._groups.clear()
            found = self._groups[keys, names] = self._grouped(sorted(keys), names)
        return found

    def _grouped(self, keys: list[str], names: frozenset[str]) -> Groups:
        numbers: dict[object, int] = {}
        firsts: list[Node] = []
        result: list[int] = []
        for node in self.nodes:
            labels = tuple(map(node.labels.get, keys))
            name = node.name if node.name in names else ""
            # Equal taints that are not the same tuple make two groups, which costs time and nothing else.
            mark = (labels, name, id(node.taints), node.cordoned, node.ready, node.pressures)
            number = numbers.setdefault(mark, len(firsts))
            if number == len(firsts):
                firsts.append(node)
            result.append(number)
        return result, firsts


class NodeIndex:
    """Nodes and what is held there.

    :param usage: None when the tenants are not known: then everything that a node has reads as free.
    :ivar surveys: of demands; see :func:`gpu_training.core.fitting.count_nodes`.
    """

    def __init__(self, table: NodeTable, usage: Usage | None) -> None:
        self.table = table
        self.nodes = table.nodes
        self.usage = usage
        self.surveys = Memo(_SURVEYS_KEPT)
        self._free: dict[str, list[int]] = {}

    def free(self, resource: str, priority: int, own: frozenset[tuple[str, str]]) -> list[int]:
        """Give what is free on each node for a pod.

        :param priority: of the pod: room that is meant for pods of at least this priority is not free.
        :param own: namespaces and names of the training's own pods: what is meant for them is.
        """
        if self.usage is None:
            return self.table.whole(resource)
        if resource not in self._free:
            self._free[resource] = self._without(self.table.whole(resource), self.usage.held(resource))
        claims = [t for t in self.usage.nominated if t.priority >= priority and (t.namespace, t.name) not in own]
        return self._without(self._free[resource], held_of(claims, resource)) if claims else self._free[resource]

    def _without(self, amounts: list[int], held: Mapping[str, int]) -> list[int]:
        if not held:
            return amounts
        return [amount - held.get(name, 0) for amount, name in zip(amounts, self.table.names, strict=True)]


def index_of(nodes: tuple[Node, ...], tenants: tuple[Tenant, ...] | None) -> NodeIndex:
    """Give the index of nodes and tenants; the one that was built before, where they are the same tuples as then."""
    return _index_of(Same(nodes), Same(tenants))


@lru_cache(maxsize=_MOMENTS_KEPT)
def _index_of(nodes: Same, tenants: Same) -> NodeIndex:
    return NodeIndex(_table_of(nodes), _usage_of(tenants))


@lru_cache(maxsize=_MOMENTS_KEPT)
def _table_of(nodes: Same) -> NodeTable:
    return NodeTable(nodes.value if isinstance(nodes.value, tuple) else ())


@lru_cache(maxsize=_MOMENTS_KEPT)
def _usage_of(tenants: Same) -> Usage | None:
    return Usage(tenants.value) if isinstance(tenants.value, tuple) else None
