"""Whether devices of a device plugin can be given to a pod, as the kubelet's device manager asks first of all. Pure.

The kubelet allocates devices before it compares amounts, so what a plugin serves is short as UnexpectedAdmissionError;
OutOf… is for resources that no plugin serves.
https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/cm/devicemanager/manager.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sandbox.agent.quantities import parse_quantity

Document = Mapping[str, Any]


def find_device_refusal(pod: Document, node: Document, resource: str, others: Iterable[Document]) -> str | None:
    """Return why the devices that a pod asks for can not be given, in the kubelet's words; None when they can.

    A Node with capacity and nothing allocatable is one whose plugin has ended. One without capacity has none any more,
    and then it is not the device manager's business.

    :param others: the pods that the node has taken and that have not ended.
    """
    capacity, healthy = (_amount(node["status"].get(part) or {}, resource) for part in ("capacity", "allocatable"))
    if not capacity or not any(asked for _, asked in _asked(pod, resource)):
        return None
    if not healthy:
        return f"no healthy devices present; cannot allocate unhealthy devices {resource}"
    available = healthy - sum(_held(other, resource) for other in others)
    short = _find_shortage(pod, resource, available)
    if short is None:
        return None
    needed, left = short
    return f"requested number of devices unavailable for {resource}. Requested: {needed}, Available: {left}"


def _find_shortage(pod: Document, resource: str, available: int) -> tuple[int, int] | None:
    """Return how many devices a container lacks of how many there are; containers take them one after another."""
    reusable = 0
    for is_init, asked in _asked(pod, resource):
        needed = max(0, asked - reusable)
        if needed > available:
            return needed, available
        available -= needed
        # What an init container had, the next ones get.
        reusable = max(reusable, asked) if is_init else max(0, reusable - asked)
    return None


def _held(pod: Document, resource: str) -> int:
    asked = list(_asked(pod, resource))
    inits = [amount for is_init, amount in asked if is_init]
    return max(sum(amount for is_init, amount in asked if not is_init), *inits, 0)


def _asked(pod: Document, resource: str) -> Iterator[tuple[bool, int]]:
    for section, is_init in (("initContainers", True), ("containers", False)):
        for container in pod["spec"].get(section) or ():
            yield is_init, _amount((container.get("resources") or {}).get("limits") or {}, resource)


def _amount(amounts: Document, resource: str) -> int:
    return int(parse_quantity(amounts.get(resource, "0")))
