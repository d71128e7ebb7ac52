"""What the autoscaler says of a pod that waits: events of cluster-autoscaler 1.28 to 1.37 and Karpenter 0.3x to 1.9.

https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-release-1.34/cluster-autoscaler
https://github.com/kubernetes-sigs/karpenter/blob/main/pkg/controllers/provisioning/scheduling/events.go
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerWords:
    """What the autoscaler says.

    :param why: in its words, as one line.
    """

    state: ScalingState
    why: str


_KARPENTER: Final = "karpenter"
_AT_MAXIMUM: Final = re.compile(
    r"max node group size reached|max cluster .{1,100} limit reached|max total nodes in cluster reached"
    r"|exceeds cluster node count limit"
)
_IN_BACKOFF: Final = re.compile(r"in backoff after failed scale-up")
_NOT_READY: Final = re.compile(r"not ready for scale-up")
_LIMITS: Final = re.compile(
    r"all available instance types exceed limits for nodepool|node limits have been exhausted for nodepool"
)
_NO_CAPACITY: Final = re.compile(r"[Ii]nsufficient ?[Cc]apacity|all requested instance types were unavailable")

_BY_REASON: Final = {
    "TriggeredScaleUp": ScalingState.SCALING_UP,
    "ScaledUpGroup": ScalingState.SCALING_UP,
    "FailedToScaleUpGroup": ScalingState.FAILED,
    "FailedScaleUp": ScalingState.FAILED,
    "ScaleUpTimedOut": ScalingState.FAILED,
    "MaxNodesTotalReached": ScalingState.AT_MAXIMUM,
    "Nominated": ScalingState.SCALING_UP,
    "Launched": ScalingState.SCALING_UP,
    "InsufficientCapacityError": ScalingState.FAILED,
    "NodeClassNotReady": ScalingState.FAILED,
    "NoCompatibleInstanceTypes": ScalingState.NOT_HELPFUL,
}


def parse_autoscaler(reason: str, message: str, source: str) -> AutoscalerWords | None:
    """Give what an event says of a pod that waits; None for an event of nobody who adds nodes.

    :param source: the component that says it, since the scheduler and Karpenter share the reason `FailedScheduling`.
    """
    text = message[:LONGEST]
    if reason == "NotTriggerScaleUp":
        state = _not_triggered(text)
    elif reason == "FailedScheduling" and _KARPENTER in source:
        state = _not_provisioned(text)
    elif reason in _BY_REASON:
        state = _BY_REASON[reason]
    else:
        return None
    return AutoscalerWords(state=state, why=plain(text))


def _not_triggered(text: str) -> ScalingState:
    if _AT_MAXIMUM.search(text):
        return ScalingState.AT_MAXIMUM
    if _IN_BACKOFF.search(text) or _NOT_READY.search(text):
        return ScalingState.FAILED
    return ScalingState.NOT_HELPFUL


def _not_provisioned(text: str) -> ScalingState:
    if _LIMITS.search(text):
        return ScalingState.AT_MAXIMUM
    return ScalingState.FAILED if _NO_CAPACITY.search(text) else ScalingState.NOT_HELPFUL
