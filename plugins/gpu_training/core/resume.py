"""Proof of resume: the first step that an attempt did, against the newest checkpoint that is known of those before it.

A retry that begins at the first step again burns the GPU time of its predecessors once more, and nothing in Kubernetes
or Airflow tells. So it is told here, as soon as the attempt says where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_CLOCKS_DIFFER_S: Final = 5.0
"""The node's clock dates an attempt's end, the control plane's the next one's beginning."""


class Beginning(StrEnum):
    """Where an attempt began, seen from the newest checkpoint that is known."""

    RESUMED = "resumed"
    """Right behind it, or further on: another writer may have had a newer one."""
    BEHIND = "behind"
    """Before it: from an older checkpoint, since the newest was torn, or nobody knows from where."""
    ANEW = "anew"
    """At the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Where an attempt that is not the first one began.

    :param first_step: first step that it did; where it has not said so, the first one that it reported.
    :param checkpoint_step: of the newest complete checkpoint that is known.
    :param left_by: the attempt that left it.
    :param repeated: steps that are done again, if it gets as far as those before it; None where it has not said at
        which step it began.
    """

    attempt: Attempt
    beginning: Beginning
    first_step: int
    checkpoint_step: int
    left_by: Attempt
    repeated: int | None


def proof_of(attempt: Attempt, others: Sequence[Attempt]) -> Proof | None:
    """Give where an attempt began; None when it has not said anything of that, or nothing was there to go on from.

    :param others: all attempts of its generation. Of those, only the ones that had ended before it began count: what
        runs beside it may have left a checkpoint since.
    """
    earlier = _before(attempt, others)
    left_by = max(earlier, key=lambda other: other.checkpoint_step or 0, default=None)
    checkpoint = left_by.checkpoint_step if left_by is not None else None
    first = attempt.first_step if attempt.first_step is not None else attempt.first_reported_step
    if left_by is None or not checkpoint or first is None:
        return None
    return Proof(
        attempt=attempt,
        beginning=_beginning(attempt, first, checkpoint),
        first_step=first,
        checkpoint_step=checkpoint,
        left_by=left_by,
        repeated=None if attempt.first_step is None else max(0, _done(earlier) - first + 1),
    )


def awaits_proof(attempt: Attempt, others: Sequence[Attempt]) -> bool:
    """Whether an attempt that runs has something to go on from, and has not said yet where it begins."""
    silent = attempt.first_step is None and attempt.first_reported_step is None
    if attempt.ended_at is not None or not silent:
        return False
    return any(other.checkpoint_step for other in _before(attempt, others))


def _before(attempt: Attempt, others: Sequence[Attempt]) -> list[Attempt]:
    """Give the attempts that had ended before this one began, as far as clocks that differ a little can tell."""
    began = attempt.started_at
    if began is None:
        return []
    return [
        other
        for other in others
        if other.uid != attempt.uid
        and other.started_at is not None
        and other.ended_at is not None
        and other.started_at < began
        and other.ended_at <= began + _CLOCKS_DIFFER_S
    ]


def _done(attempts: Iterable[Attempt]) -> int:
    return max((attempt.last_step or 0 for attempt in attempts), default=0)


def _beginning(attempt: Attempt, first: int, checkpoint: int) -> Beginning:
    # Who counts from 0 does the step that bears the checkpoint's number.
    if first >= checkpoint:
        return Beginning.RESUMED
    # A checkpoint of its own from the start says that it has found one, whatever step it counts from.
    return Beginning.BEHIND if first > 1 or attempt.checkpoint_step else Beginning.ANEW


def repeated_steps(attempt: Attempt, others: Sequence[Attempt]) -> int:
    """Give how many of the steps that an attempt has done were done before; 0 where it has not said what it did."""
    if attempt.first_step is None or attempt.last_step is None:
        return 0
    return max(0, min(attempt.last_step, _done(_before(attempt, others))) - attempt.first_step + 1)


def total_repeated_steps(attempts: Sequence[Attempt]) -> int:
    """Give how many steps of a generation were done more than once."""
    return sum(repeated_steps(attempt, attempts) for attempt in attempts)


def sentence(proof: Proof) -> str:
    """Give the evidence as a sentence for the task log."""
    pod, step = f"pod {proof.attempt.pod}", proof.first_step
    known = f"the checkpoint of step {proof.checkpoint_step} that pod {proof.left_by.pod} left"
    if proof.repeated is None:
        again = "it does not say at which step it began, so that what is done again is not known"
    else:
        again = f"{proof.repeated} steps are done again" if proof.repeated else "no step is done again"
    said_so = proof.attempt.first_step is not None
    match proof.beginning:
        case Beginning.RESUMED:
            return f"{pod} {'goes on at' if said_so else 'first reports'} step {step}, after {known}: {again}"
        case Beginning.BEHIND:
            does = "goes on at" if said_so else "first reports"
            return f"{pod} {does} step {step}, before {known}: {again}; its log says whether that was passed over"
        case Beginning.ANEW:
            return f"{pod} begins anew, at step {step}, though {known} is known: {again}"


def not_resumed(attempt: Attempt, others: Sequence[Attempt]) -> Verdict | None:
    """Give the verdict for which a Job is ended whose last attempt began anew; None where it did not, or has succeeded.

    :param others: all attempts of its generation.
    """
    proof = proof_of(attempt, others)
    succeeded = attempt.ended_at is not None and attempt.verdict is None
    if proof is None or proof.beginning is not Beginning.ANEW or succeeded:
        return None
    return Verdict(
        category=Category.NOT_RESUMED,
        owner=Owner.APPLICATION,
        action=Action.FAIL,
        summary=sentence(proof),
        remedy="see in the first lines of its log why the program passed the checkpoint over, and mend that; or, where "
        "the checkpoint is gone, set if_not_resumed: warn, and clear the task, to have it train from the first step",
    )
