"""Where each attempt began, told once it is known: the proof that a retry goes on, or that it does not."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_training.core.attempts import Attempt
from gpu_training.core.choices import IfNotResumed
from gpu_training.core.resume import Beginning, not_resumed, proof_of, sentence
from gpu_training.core.verdict import Verdict
from gpu_training.task_log import TaskLog


class Beginnings:
    """Looks at the attempts of one generation.

    :param policy: what follows when one begins anew though a checkpoint was there.
    """

    def __init__(self, policy: IfNotResumed, log: TaskLog) -> None:
        self._policy = policy
        self._log = log
        self._told: set[str] = set()

    def tell(self, attempts: Sequence[Attempt]) -> None:
        """Say where each attempt that runs has begun, once."""
        for attempt in attempts:
            if attempt.uid in self._told or attempt.ended_at is not None:
                continue
            proof = proof_of(attempt, attempts)
            if proof is None:
                continue
            self._told.add(attempt.uid)
            say = self._log.info if proof.beginning is Beginning.RESUMED else self._log.warning
            say("attempt %d: %s", attempt.number, sentence(proof))

    def begun_anew(self, attempts: Sequence[Attempt]) -> Verdict | None:
        """Give why the Job is to be ended; None where it may go on."""
        return not_resumed(attempts) if self._policy is IfNotResumed.STOP else None
