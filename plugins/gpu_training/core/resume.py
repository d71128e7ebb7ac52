"""Proof of resume: the first step that an attempt did, against the newest checkpoint that is known of those before it.

A retry that begins at the first step again burns the GPU time of its predecessors once more, and nothing in Kubernetes
or Airflow tells. So it is told here, as soon as the attempt says where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_training.core.attempts import Attempt
from gpu_training.core.verdict import Action, Category, Owner, Verdict


class Beginning(StrEnum):
    """Where an attempt began, seen from the newest checkpoint that is known."""

    RESUMED = "resumed"
    """Right behind it, or further on: another writer may have had a newer one."""
    BEHIND = "behind"
    """From an older checkpoint: the newest was torn, or of a writer that could not be read."""
    ANEW = "anew"
    """At the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Where an attempt that is not the first one began.

    :param first_step: first step that it did; where it has not said so, the least one that it can have been.
    :param checkpoint_step: of the newest complete checkpoint that is known.
    :param left_by: the attempt that left it.
    :param repeated: steps that are done again, if it gets as far as those before it.
    """

    attempt: Attempt
    beginning: Beginning
    first_step: int
    checkpoint_step: int
    left_by: Attempt
    repeated: int


def proof_of(attempt: Attempt, others: Sequence[Attempt]) -> Proof | None:
    """Give where an attempt began; None when it has not said anything of that, or nothing was there to go on from.

    :param others: all attempts of its generation. Of those, only the ones that began before it count.
    """
    earlier = [other for other in others if _is_before(other, attempt)]
    left_by = max(earlier, key=lambda other: other.checkpoint_step or 0, default=None)
    checkpoint = left_by.checkpoint_step if left_by is not None else None
    if left_by is None or not checkpoint:
        return None
    first = _first_step(attempt, checkpoint)
    if first is None:
        return None
    done = max(other.last_step or 0 for other in earlier)
    return Proof(
        attempt=attempt,
        beginning=_beginning(attempt, first, checkpoint),
        first_step=first,
        checkpoint_step=checkpoint,
        left_by=left_by,
        repeated=max(0, done - first + 1),
    )


def awaits_proof(attempt: Attempt, others: Sequence[Attempt]) -> bool:
    """Whether an attempt that runs has something to go on from, and has not said yet where it begins."""
    silent = attempt.first_step is None and attempt.first_reported_step is None
    if attempt.ended_at is not None or not silent:
        return False
    return any(other.checkpoint_step and _is_before(other, attempt) for other in others)


def _is_before(other: Attempt, attempt: Attempt) -> bool:
    if other.uid == attempt.uid or other.started_at is None or attempt.started_at is None:
        return False
    return other.started_at < attempt.started_at


def _first_step(attempt: Attempt, checkpoint: int) -> int | None:
    if attempt.first_step is not None:
        return attempt.first_step
    if attempt.first_reported_step is None:
        return None
    # A program that reports every hundredth step, and not where it begins, is believed as far as its reports allow it.
    return (
        min(attempt.first_reported_step, checkpoint + 1) if attempt.first_reported_step < checkpoint else checkpoint + 1
    )


def _beginning(attempt: Attempt, first: int, checkpoint: int) -> Beginning:
    if first > checkpoint:
        return Beginning.RESUMED
    return Beginning.BEHIND if attempt.first_step is not None and first > 1 else Beginning.ANEW


def repeated_steps(attempt: Attempt, others: Sequence[Attempt]) -> int:
    """Give how many of the steps that an attempt has done were done before; 0 where it has not said what it did."""
    done = max((other.last_step or 0 for other in others if _is_before(other, attempt)), default=0)
    proof = proof_of(attempt, others)
    first = attempt.first_step if attempt.first_step is not None else proof.first_step if proof is not None else None
    if first is None or attempt.last_step is None:
        return 0
    return max(0, min(attempt.last_step, done) - first + 1)


def total_repeated_steps(attempts: Sequence[Attempt]) -> int:
    """Give how many steps of a generation were done more than once."""
    return sum(repeated_steps(attempt, attempts) for attempt in attempts)


def sentence(proof: Proof) -> str:
    """Give the evidence as a sentence for the task log."""
    attempt, left_by = proof.attempt, proof.left_by
    known = f"the checkpoint of step {proof.checkpoint_step} that pod {left_by.pod} left"
    again = f"{proof.repeated} steps are done again" if proof.repeated else "no step is done again"
    if proof.beginning is Beginning.RESUMED:
        return f"pod {attempt.pod} goes on at step {proof.first_step}, after {known}: {again}"
    at = f"at step {proof.first_step}" if attempt.first_step is not None else f"at step {proof.first_step} or before"
    if proof.beginning is Beginning.BEHIND:
        return f"pod {attempt.pod} goes on {at}, from an older checkpoint than {known}: {again}; its log says why"
    return f"pod {attempt.pod} begins anew, {at}, though {known} is known: {again}"


def not_resumed(attempts: Sequence[Attempt]) -> Verdict | None:
    """Give the verdict for which a Job is ended one of whose running attempts began anew; None while none has."""
    for attempt in attempts:
        if attempt.ended_at is not None:
            continue
        proof = proof_of(attempt, attempts)
        if proof is not None and proof.beginning is Beginning.ANEW:
            return Verdict(
                category=Category.NOT_RESUMED,
                owner=Owner.APPLICATION,
                action=Action.FAIL,
                summary=sentence(proof),
                remedy="see in the first lines of its log why the program passed the checkpoint over, and mend that; "
                "or set if_not_resumed: warn, and clear the task, to have it train from the first step",
            )
    return None
