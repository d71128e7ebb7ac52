"""Many nodes and what is free on them, laid out so that one look at all of them is cheap.

Built once for the nodes and tenants of a moment, however many trainings wait. Amounts are whole billionths of a
resource's base unit, the finest that Kubernetes keeps: exact, and several times faster to compare than fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Final

from gpu_training.core.pod_demand import PODS
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sameness import Same
from gpu_training.core.surroundings import Node, Tenant

UNIT: Final = 10**9
_UNBOUNDED: Final = 10**40
_KEPT: Final = 32
_MOMENTS_KEPT: Final = 4

# What clouds, NVIDIA's feature discovery and node-feature-discovery put on nodes that have GPUs, driver or not.
_GPU_LABELS: Final = (
    "nvidia.com/gpu.present",
    "nvidia.com/gpu.count",
    "nvidia.com/gpu.product",
    "cloud.google.com/gke-accelerator",
    "k8s.amazonaws.com/accelerator",
    "karpenter.k8s.aws/instance-gpu-count",
    "kubernetes.azure.com/accelerator",
    "feature.node.kubernetes.io/pci-10de.present",
    "feature.node.kubernetes.io/pci-0302_10de.present",
    "feature.node.kubernetes.io/pci-0300_10de.present",
)

Groups = tuple[list[int], list[Node]]
"""The number of each node's group, and the first node of each group."""


def has_gpu_label(node: Node) -> bool:
    """Whether a node's labels say that it has GPUs, whether or not it offers them."""
    return any(node.labels.get(label, "false") not in ("false", "0", "none", "") for label in _GPU_LABELS)


def units(amount: Fraction) -> int:
    """Give an amount that a node has, rounded down."""
    return amount.numerator * UNIT // amount.denominator


def units_asked(amount: Fraction) -> int:
    """Give an amount that is asked for, rounded up."""
    return -(-amount.numerator * UNIT // amount.denominator)


def whole_of(node: Node, resource: str) -> int:
    """Give what a node has of a resource in all, in billionths. One that does not say how many pods it takes is taken
    to hold any number."""
    amount = node.allocatable.get(resource)
    if amount is None:
        return _UNBOUNDED if resource == PODS else 0
    return units(amount)


def promise_of(node: Node) -> int:
    """Give how many GPUs a node has, offered or not, in billionths; a billionth where only a label says that it has."""
    return units(node.capacity.get(GPU_RESOURCE, Fraction(0))) or int(has_gpu_label(node))


class NodeIndex:
    """Nodes, in their order, and their tenants.

    :param tenants: None when they are not known: then everything that a node has reads as free.
    """

    def __init__(self, nodes: tuple[Node, ...], tenants: tuple[Tenant, ...] | None) -> None:
        self.nodes = nodes
        self.tenants = tuple(each for each in tenants or () if not each.nominated)
        self.nominated = tuple(each for each in tenants or () if each.nominated)
        self._place = {node.name: place for place, node in enumerate(nodes)}
        self._free: dict[str, list[int]] = {}
        self._whole: dict[str, list[int]] = {}
        self._promised: list[int] | None = None
        self._groups: dict[tuple[frozenset[str], frozenset[str]], Groups] = {}
        self._holders: dict[str, list[Tenant]] | None = None

    def whole(self, resource: str) -> list[int]:
        """Give what each node has of a resource in all."""
        if resource not in self._whole:
            self._whole[resource] = [whole_of(node, resource) for node in self.nodes]
        return self._whole[resource]

    def free(self, resource: str, priority: int, own: frozenset[tuple[str, str]]) -> list[int]:
        """Give what is free on each node for a pod.

        :param priority: of the pod: room that is meant for pods of at least this priority is not free.
        :param own: namespaces and names of the training's own pods: what is meant for them is.
        """
        if resource not in self._free:
            self._free[resource] = self._without(self.whole(resource), resource, self.tenants)
        claims = [t for t in self.nominated if t.priority >= priority and (t.namespace, t.name) not in own]
        return self._without(self._free[resource], resource, claims) if claims else self._free[resource]

    def _without(self, amounts: list[int], resource: str, tenants: Iterable[Tenant]) -> list[int]:
        left = list(amounts)
        for tenant in tenants:
            place, held = self._place.get(tenant.node), tenant.requests.get(resource)
            if place is not None and held is not None:
                left[place] -= units_asked(held)
        return left

    def node(self, name: str) -> Node | None:
        """Give the node of a name."""
        place = self._place.get(name)
        return None if place is None else self.nodes[place]

    def promised(self) -> list[int]:
        """Give how many GPUs each node has, offered or not."""
        if self._promised is None:
            self._promised = [promise_of(node) for node in self.nodes]
        return self._promised

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
            mark = (labels, name, node.taints, node.cordoned, node.ready, node.pressures)
            number = numbers.setdefault(mark, len(firsts))
            if number == len(firsts):
                firsts.append(node)
            result.append(number)
        return result, firsts

    def gpu_holders(self) -> Mapping[str, list[Tenant]]:
        """Give the tenants that hold GPUs, by node."""
        if self._holders is None:
            self._holders = {}
            for tenant in self.tenants:
                if tenant.requests.get(GPU_RESOURCE):
                    self._holders.setdefault(tenant.node, []).append(tenant)
        return self._holders


def index_of(nodes: tuple[Node, ...], tenants: tuple[Tenant, ...] | None) -> NodeIndex:
    """Give the index of nodes and tenants; the one that was built before, where they are the same tuples as then."""
    return _index_of(Same(nodes), Same(tenants))


@lru_cache(maxsize=_MOMENTS_KEPT)
def _index_of(nodes: Same, tenants: Same) -> NodeIndex:
    found, holders = nodes.value, tenants.value
    return NodeIndex(found if isinstance(found, tuple) else (), holders if isinstance(holders, tuple) else None)
