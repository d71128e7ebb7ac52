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

# The scheduler tells the first filter that turned a node down: the later that filter, the nearer is the node. Those for
# volumes and other pods come last. https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins
_FILTERS: Final = (
    Cause.NO_GPU_NODES,
    Cause.NODES_CORDONED,
    Cause.NODES_NOT_READY,
    Cause.NODES_UNDER_PRESSURE,
    Cause.TAINT_NOT_TOLERATED,
    Cause.LABEL_NOT_MATCHED,
    Cause.TOO_FEW_GPUS,
    Cause.TOO_LITTLE_CPU_OR_MEMORY,
    Cause.GPUS_TAKEN,
    Cause.CPU_OR_MEMORY_TAKEN,
)
_FILTER: Final = {cause: place for place, cause in enumerate(_FILTERS)}
_ABOUT_NODES: Final = (Cause.UNSCHEDULABLE, Cause.VOLUME_ELSEWHERE)
_MOST_TOLD: Final = 4


def whole_pod_reason(words: SchedulerWords | None) -> SchedulerReason | None:
    """Give the reason that is about the pod as a whole, and not about nodes: a volume claim that is missing, say."""
    if words is None or len(words.reasons) != 1:
        return None
    reason = words.reasons[0]
    if reason.cause is None or reason.cause in OF_NODES or reason.cause in _ABOUT_NODES:
        return None
    return reason if reason.count == words.total else None


def other_reason(words: SchedulerWords | None) -> SchedulerReason | None:
    """Give the reason of the most nodes among those that nodes alone do not tell: volumes, other pods, ports, …"""
    others = [reason for reason in words.reasons if reason.cause not in OF_NODES] if words is not None else []
    return max(others, key=lambda reason: reason.count, default=None)


def nearest_reason(words: SchedulerWords) -> SchedulerReason | None:
    """Give the reason of the nodes that came furthest; one that is not known only where there is no other."""
    return max(words.reasons, key=_progress, default=None)


def _progress(reason: SchedulerReason) -> tuple[int, int]:
    return (-1 if reason.cause is None else _FILTER.get(reason.cause, len(_FILTERS))), reason.count


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
    clause = growth.clause if reason.cause in OF_NODES else ""
    cure, ending = _fate(words, reason, growth)
    return Report(
        cause=reason.cause,
        cure=cure,
        summary=_summary(words, reason),
        remedy=" ".join(part for part in (_sentence(reason.remedy), clause, ending) if part),
        nodes=_counts(words),
    )


def _fate(words: SchedulerWords, reason: SchedulerReason, growth: Growth) -> tuple[Cure, str]:
    """Give whether waiting cures what the scheduler says, without a look at the nodes. A node that was turned down for
    what heals may be one that matches in all else."""
    if reason.cause not in STRUCTURAL:
        return reason.cure, ""
    return growth.fate(lost=all(map(_is_structural, words.reasons)))


def _is_structural(reason: SchedulerReason) -> bool:
    # The scheduler of Kubernetes 1.37 no longer names the taint: it may be that of a node that is only not ready.
    unnamed = reason.cause is Cause.TAINT_NOT_TOLERATED and reason.taint is None
    # The same is said of GPUs while a device plugin starts anew.
    return reason.cause in STRUCTURAL and reason.cause is not Cause.TOO_FEW_GPUS and not unnamed


def _summary(words: SchedulerWords, reason: SchedulerReason) -> str:
    if len(words.reasons) == 1 and reason.cause not in OF_NODES and reason.cause not in _ABOUT_NODES:
        return _sentence(reason.reason)
    told = "; ".join(f"{each.count} × {each.reason}" for each in words.reasons[:_MOST_TOLD])
    return f"The scheduler finds no node among {words.total}: {told}."


def _counts(words: SchedulerWords | None) -> tuple[NodeCount, ...]:
    reasons = words.reasons if words is not None else ()
    return tuple(NodeCount(reason=each.reason, count=each.count, cause=each.cause) for each in reasons)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
