"""What the tenants of nodes hold. Amounts are whole billionths of a resource's base unit, the finest that Kubernetes
keeps: exact, and several times faster to compare than fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Final

from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.surroundings import Tenant

UNIT: Final = 10**9


def units(amount: Fraction) -> int:
    """Give an amount that a node has, rounded down."""
    numerator, denominator = amount.as_integer_ratio()
    return numerator * UNIT // denominator


def units_asked(amount: Fraction) -> int:
    """Give an amount that is asked for, rounded up."""
    numerator, denominator = amount.as_integer_ratio()
    return -(-numerator * UNIT // denominator)


def holds_gpus(tenant: Tenant) -> bool:
    """Whether a tenant holds GPUs."""
    amount = tenant.requests.get(GPU_RESOURCE)
    return amount is not None and amount.numerator > 0


class Usage:
    """What the tenants of nodes hold: of a moment, whatever the nodes are like."""

    def __init__(self, tenants: tuple[Tenant, ...]) -> None:
        self.tenants = tuple(each for each in tenants if not each.nominated)
        self.nominated = tuple(each for each in tenants if each.nominated)
        self._held: dict[str, dict[str, int]] = {}

    def held(self, resource: str) -> Mapping[str, int]:
        """Give what is held of a resource, by node."""
        if resource not in self._held:
            self._held[resource] = held_of(self.tenants, resource)
        return self._held[resource]

    @cached_property
    def claimants(self) -> frozenset[tuple[str, str]]:
        """Namespaces and names of the pods for which a node is meant."""
        return frozenset((each.namespace, each.name) for each in self.nominated)

    @cached_property
    def gpu_users(self) -> frozenset[tuple[str, str]]:
        """Namespaces and names of the tenants that hold GPUs."""
        return frozenset((each.namespace, each.name) for held in self.gpu_holders.values() for each in held)

    @cached_property
    def gpu_holders(self) -> Mapping[str, list[Tenant]]:
        """The tenants that hold GPUs, by node."""
        found: dict[str, list[Tenant]] = {}
        for tenant in self.tenants:
            if holds_gpus(tenant):
                found.setdefault(tenant.node, []).append(tenant)
        return found


def held_of(tenants: Iterable[Tenant], resource: str) -> dict[str, int]:
    """Give what tenants hold of a resource, by node."""
    found: dict[str, int] = {}
    for tenant in tenants:
        amount = tenant.requests.get(resource)
        if amount is not None:
            found[tenant.node] = found.get(tenant.node, 0) + units_asked(amount)
    return found
