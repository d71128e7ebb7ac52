"""What is told about a training that waits. Plain values; :mod:`gpu_training.core.pending` finds them."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_training.core.pending_cause import Cause, Cure


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """So many nodes can not take the pod for this reason: of the reasons of each node, the one that is hardest to cure.

    :param cause: None where the scheduler's words are not known here; `reason` has them.
    :param reason: in words, such as `taint dedicated=ingest:NoSchedule is not tolerated`.
    """

    reason: str
    count: int
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHolder:
    """Who holds GPUs that the training could have.

    :param who: pod, and model or Job where it has one.
    :param ends_by: when it has to end at the latest, in seconds since 1970; None when nothing bounds it.
    """

    who: str
    node: str
    gpus: int
    ends_by: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Why a training waits.

    :param cause: the one nearest to a cure.
    :param summary: one sentence with the facts.
    :param remedy: what to do, and who can.
    :param subject: what waits, such as `pod flight-delay-…-x7k2p` or `Job …`.
    :param nodes: all nodes, counted by reason; empty when none was looked at.
    :param nearest: the smallest change that would let it run now, in words; empty when none is known.
    :param holders: who holds what it wants, the soonest to end first.
    :param words: what Kubernetes says, unchanged; empty when it says nothing.
    :param hidden: what could not be looked at, and why.
    """

    cause: Cause
    cure: Cure
    summary: str
    remedy: str
    subject: str = ""
    nodes: tuple[NodeCount, ...] = ()
    nearest: str = ""
    holders: tuple[GpuHolder, ...] = ()
    words: str = ""
    hidden: tuple[str, ...] = ()

    @property
    def curable(self) -> bool:
        """Whether waiting can cure it."""
        return self.cure is not Cure.NEVER
