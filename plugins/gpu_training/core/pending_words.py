"""Why a pod has no node, by the scheduler's words alone: where nodes are not known, or are not what is in the way."""

from __future__ import annotations

from typing import Final

from gpu_training.core.fitting import NEAREST_FIRST
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_growth import Growth
from gpu_training.core.pending_report import NodeCount, Report
from gpu_training.core.scheduler_words import SchedulerReason, SchedulerWords

STRUCTURAL: Final = frozenset(
    {
        Cause.NO_GPU_NODES,
        Cause.TOO_FEW_GPUS,
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cause.TAINT_NOT_TOLERATED,
        Cause.LABEL_NOT_MATCHED,
    }
)
"""What only another node, or another demand, cures."""

OF_NODES: Final = frozenset(NEAREST_FIRST)
"""What is known of nodes without the scheduler's words."""

_RANK: Final = {cause: rank for rank, cause in enumerate(NEAREST_FIRST)}
_MOST_TOLD: Final = 4


def whole_pod_reason(words: SchedulerWords | None) -> SchedulerReason | None:
    """Give the reason that is about the pod as a whole, and not about nodes: a volume claim that is missing, say."""
    if words is None or len(words.reasons) != 1:
        return None
    reason = words.reasons[0]
    if reason.cause is None or reason.cause in OF_NODES or reason.cause is Cause.UNSCHEDULABLE:
        return None
    return reason if reason.count == words.total else None


def other_reason(words: SchedulerWords | None) -> SchedulerReason | None:
    """Give the reason of the most nodes among those that nodes alone do not tell: volumes, other pods, ports, …"""
    others = [reason for reason in words.reasons if reason.cause not in OF_NODES] if words is not None else []
    return max(others, key=lambda reason: reason.count, default=None)


def nearest_reason(words: SchedulerWords) -> SchedulerReason | None:
    """Give the reason that is nearest to a cure."""
    return min(words.reasons, key=lambda r: _RANK.get(r.cause, len(_RANK)) if r.cause else 99, default=None)


def of_words(words: SchedulerWords | None, growth: Growth, reason: SchedulerReason | None) -> Report:
    """Give why a pod has no node, as the scheduler says.

    :param reason: that decides; None: the one nearest to a cure.
    """
    reason = reason or (nearest_reason(words) if words is not None else None)
    if words is None or reason is None or reason.cause is None:
        said = words.whole if words is not None else "it gives no reason"
        return Report(
            cause=Cause.UNSCHEDULABLE,
            cure=Cure.WAITING,
            summary=f"The scheduler finds no node: {said}",
            remedy="Read the scheduler's words; ask whoever runs the cluster what they mean there.",
            nodes=_counts(words),
        )
    return Report(
        cause=reason.cause,
        cure=cure_of(reason, growth),
        summary=_summary(words, reason),
        remedy=" ".join(part for part in (_sentence(reason.remedy), growth.clause) if part),
        nodes=_counts(words),
    )


def cure_of(reason: SchedulerReason, growth: Growth) -> Cure:
    """Give whether waiting cures what the scheduler says, without a look at the nodes."""
    if reason.cause not in STRUCTURAL:
        return reason.cure
    # The scheduler of Kubernetes 1.37 no longer names the taint: it may be that of a node that is only not ready.
    unnamed = reason.cause is Cause.TAINT_NOT_TOLERATED and reason.taint is None
    return Cure.NEVER if growth.hopeless and not unnamed else Cure.WAITING


def _summary(words: SchedulerWords, reason: SchedulerReason) -> str:
    if len(words.reasons) == 1 and reason.cause not in OF_NODES:
        return _sentence(reason.reason)
    told = "; ".join(f"{each.count} × {each.reason}" for each in words.reasons[:_MOST_TOLD])
    return f"The scheduler finds no node among {words.total}: {told}."


def _counts(words: SchedulerWords | None) -> tuple[NodeCount, ...]:
    reasons = words.reasons if words is not None else ()
    return tuple(NodeCount(reason=each.reason, count=each.count, cause=each.cause) for each in reasons)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
