"""Where each attempt began, told once it is known: the proof that a retry goes on, or that it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.choices import IfNotResumed
from gpu_training.core.resume import Beginning, awaits_proof, not_resumed, proof_of, sentence
from gpu_training.core.verdict import Verdict
from gpu_training.task_log import TaskLog

_OFTEN_S: Final = 1.0
_SELDOM_S: Final = 30.0
_PART: Final = 10


class Beginnings:
    """Looks at the attempts of one generation.

    :param policy: what follows when one begins anew though a checkpoint was there.
    """

    def __init__(self, policy: IfNotResumed, log: TaskLog) -> None:
        self._policy = policy
        self._log = log
        self._told: set[str] = set()

    def pass_over(self, attempts: Sequence[Attempt]) -> None:
        """Take what is written down of attempts that have ended as told: whoever watched before has said it."""
        ended = [attempt for attempt in attempts if attempt.ended_at is not None]
        self._told |= {attempt.uid for attempt in ended if proof_of(attempt, attempts) is not None}

    def tell(self, attempts: Sequence[Attempt]) -> None:
        """Say where each attempt has begun, once it is known."""
        for attempt in attempts:
            if attempt.uid in self._told:
                continue
            proof = proof_of(attempt, attempts)
            if proof is None:
                continue
            self._told.add(attempt.uid)
            say = self._log.info if proof.beginning is Beginning.RESUMED else self._log.warning
            say("attempt %d: %s", attempt.number, sentence(proof))

    def look_again(self, attempts: Sequence[Attempt], now: float) -> float | None:
        """Give the seconds after which an attempt that runs may have said where it begins; None where all have. A log
        comes without any news of Job or pods, and the longer it is silent the less there is to be gained."""
        silent = [each.started_at for each in attempts if each.started_at is not None and awaits_proof(each, attempts)]
        if not silent:
            return None
        return min(_SELDOM_S, max(_OFTEN_S, (now - max(silent)) / _PART))

    def begun_anew(self, of_job: Sequence[Attempt], attempts: Sequence[Attempt]) -> Verdict | None:
        """Give why the Job is to be ended; None where it may go on.

        :param of_job: its own attempts, by age; the last one counts.
        :param attempts: of its generation.
        """
        if self._policy is not IfNotResumed.STOP or not of_job:
            return None
        return not_resumed(of_job[-1], attempts)
