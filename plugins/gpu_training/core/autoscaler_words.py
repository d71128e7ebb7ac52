"""What the autoscaler says of a pod that waits: events of cluster-autoscaler and Karpenter.

https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-release-1.34/cluster-autoscaler
https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/events.go

Read of cluster-autoscaler 1.28 to 1.37 and of Karpenter 0.32 to 1.14.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.sayings import LONGEST, plain


class ScalingState(StrEnum):
    """What the autoscaler does for the pod. Stable names."""

    SCALING_UP = "scaling_up"
    AT_MAXIMUM = "at_maximum"
    """A node would help, and the group, pool or cluster may not grow further."""
    NOT_HELPFUL = "not_helpful"
    """No node that it could add would take the pod."""
    FAILED = "failed"
    """The cloud gave no node: it usually tries again by itself."""
    UNKNOWN = "unknown"
    """What it says is not known here, and is no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerWords:
    """What the autoscaler says.

    :param why: in its words, as one line.
    """

    state: ScalingState
    why: str


# EKS Auto Mode runs Karpenter under a name of its own; the beginning of the message is the same everywhere.
_OF_KARPENTER: Final = ("karpenter", "eks-auto-mode")
_BEGINS_CLUSTER_AUTOSCALER: Final = "pod didn't trigger scale-up: "
_BEGINS_KARPENTER: Final = "Failed to schedule pod, "
_AT_MAXIMUM: Final = re.compile(
    r"max node group size reached|max cluster .{1,100} limit reached|max total nodes in cluster reached"
    r"|exceeds cluster node count limit"
)
_IN_BACKOFF: Final = re.compile(r"in backoff after failed scale-up|not ready for scale-up|scale-up execution failed")
_LIMITS: Final = re.compile(
    r"all available instance types exceed limits for nodepool|node limits have been exhausted for nodepool"
)
# No node of the group, were it empty, would take the pod. Pods, volumes and the like may change, and are not among it.
_GROUP_BARS: Final = re.compile(
    r"(?:\d{1,9} )?(?:Insufficient \S|node\(s\) had (?:untolerated )?taint"
    r"|node\(s\) didn't match (?:Pod's node affinity|scheduler-enforced node affinity|the requested node name))"
)
_NEXT_GROUP: Final = re.compile(r", (?=\d{1,9} )")
# Likewise of a pool. Which labels instance types have depends on what of them is to be had just now; taints and
# requirements of a pool, and the sizes of instance types, do not.
_POOL_BARS: Final = re.compile(
    r"incompatible requirements|did not tolerate "
    r"|no instance type (?:met the scheduling requirements or )?(?:has|had) enough resources"
    r"|requirements that are not yet supported by Karpenter"
)
_NEXT_POOL: Final = re.compile(r"[;\n] ?")
# An offering is an instance type in a zone at a price: what fits but is not to be had just now lacks one.
_NO_CAPACITY: Final = re.compile(
    r"[Ii]nsufficient ?[Cc]apacity|all requested instance types were unavailable"
    r"|no instance type has the required offering|had enough resources, had a required offering"
    r"|no instance type met the scheduling requirements or had a required offering"
    r"|and the required offering (?:met|had) the|requirements/resources/offering tuple"
    r"|compatible reserved offering"
)

_BY_REASON: Final = {
    "TriggeredScaleUp": ScalingState.SCALING_UP,
    "ScaledUpGroup": ScalingState.SCALING_UP,
    "FailedToScaleUpGroup": ScalingState.FAILED,
    # GKE says it of the pod itself.
    "FailedScaleUp": ScalingState.FAILED,
    "ScaleUpTimedOut": ScalingState.FAILED,
    "MaxNodesTotalReached": ScalingState.AT_MAXIMUM,
    "Nominated": ScalingState.SCALING_UP,
    "InsufficientCapacityError": ScalingState.FAILED,
    "NodeClassNotReady": ScalingState.FAILED,
    # What is not to be had just now is filtered out too.
    "NoCompatibleInstanceTypes": ScalingState.UNKNOWN,
}


def parse_autoscaler(reason: str, message: str, source: str) -> AutoscalerWords | None:
    """Give what an event says of a pod that waits; None for an event of nobody who adds nodes.

    :param source: the component that says it, since the scheduler and Karpenter share the reason `FailedScheduling`.
    """
    text = message[:LONGEST]
    if reason == "NotTriggerScaleUp":
        state = _not_triggered(text)
    elif reason == "FailedScheduling" and _is_karpenter(text, source):
        state = _not_provisioned(text)
    elif reason in _BY_REASON:
        state = _BY_REASON[reason]
    else:
        return None
    return AutoscalerWords(state=state, why=plain(text))


def _not_triggered(text: str) -> ScalingState:
    """Give the most hopeful of what is said of the node groups, each of which has a reason of its own."""
    if _IN_BACKOFF.search(text):
        return ScalingState.FAILED
    if _AT_MAXIMUM.search(text):
        return ScalingState.AT_MAXIMUM
    reasons = _NEXT_GROUP.split(text.removeprefix(_BEGINS_CLUSTER_AUTOSCALER))
    return _barred(text, all(map(_GROUP_BARS.match, reasons)))


def _barred(text: str, by_all: bool) -> ScalingState:
    """Give that nothing helps only of words that are known, and known to the end."""
    return ScalingState.NOT_HELPFUL if by_all and len(text) < LONGEST else ScalingState.UNKNOWN


def _is_karpenter(text: str, source: str) -> bool:
    return text.startswith(_BEGINS_KARPENTER) or any(name in source for name in _OF_KARPENTER)


def _not_provisioned(text: str) -> ScalingState:
    """Give the most hopeful of what is said of the pools, each of which has a reason of its own."""
    if _NO_CAPACITY.search(text):
        return ScalingState.FAILED
    if _LIMITS.search(text):
        return ScalingState.AT_MAXIMUM
    return _barred(text, all(map(_POOL_BARS.search, _NEXT_POOL.split(text))))
