"""Why a pod has to stop, and how long its containers may take. Pure.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.agent.orders import PodEnd

Document = Mapping[str, Any]

DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"

SHORTEST_GRACE_S = 2.0
"""The kubelet grants two seconds even where none are asked for."""

DEFAULT_GRACE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Why a pod must end, and how long its containers may take.

    :param failure: reason and message of the pod's failure; None: it is deleted.
    """

    grace_s: float
    failure: tuple[str, str] | None = None


def find_stop(pod: Document, *, gone: bool, order: PodEnd | None, started_ns: int, now_ns: int) -> Stop | None:
    """Return why the pod has to stop now, or None.

    :param gone: its object is not there any more.
    :param order: the node was ordered to end it.
    """
    if gone or is_deleted(pod):
        return Stop(grace_s=_granted_s(pod))
    if order is not None:
        return Stop(grace_s=max(SHORTEST_GRACE_S, order.grace_s), failure=(order.reason, order.message))
    left = seconds_to_deadline(pod, started_ns=started_ns, now_ns=now_ns)
    if left is not None and left <= 0:
        return Stop(grace_s=_own_grace_s(pod), failure=("DeadlineExceeded", DEADLINE_MESSAGE))
    return None


def is_deleted(pod: Document) -> bool:
    """Whether the pod is to be deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def _granted_s(pod: Document) -> float:
    granted = pod["metadata"].get("deletionGracePeriodSeconds")
    return _own_grace_s(pod) if granted is None else max(SHORTEST_GRACE_S, float(granted))


def _own_grace_s(pod: Document) -> float:
    return max(SHORTEST_GRACE_S, float(pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_S)))


def seconds_to_deadline(pod: Document, *, started_ns: int, now_ns: int) -> float | None:
    """Return how long the pod may still be active; None: for ever."""
    limit = pod["spec"].get("activeDeadlineSeconds")
    return None if limit is None else limit - (now_ns - started_ns) / 10**9
