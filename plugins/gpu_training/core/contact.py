"""How long a training is waited for that nobody can look at any more.

The API server may refuse to be asked for good: the Role lost a verb, the connection or the cluster is gone. The Job's
own deadline ends it there; this bounds the waiting here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpu_training.core.attempts import Attempt, attempts_of
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.observation import Observation
from gpu_training.core.rules import RuleTable
from gpu_training.core.verdict import Action, Category, Owner, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A time without contact.

    :param since: seconds on a monotonic clock.
    :param trouble: the newest reason.
    """

    since: float
    trouble: str

    def left(self, limit: float, clock: float) -> float:
        """Give the seconds until it has lasted longer than the limit; 0 when it has.

        :param clock: seconds on the same clock as `since`.
        """
        return max(0.0, self.since + limit - clock)


def listen(silence: Silence | None, trouble: str | None, clock: float) -> Silence | None:
    """Give the silence that goes on or begins now; None when there is contact."""
    if trouble is None:
        return None
    return Silence(since=clock if silence is None else silence.since, trouble=trouble)


def out_of_contact(
    observation: Observation, silence: Silence, *, rules: RuleTable, clock: float, now: float
) -> Outcome:
    """Give the end of the waiting for a training that may go on unseen.

    :param observation: what was last seen.
    :param rules: what says what the end of an attempt means that was seen.
    :param now: seconds since 1970.
    """
    verdict = Verdict(
        category=Category.UNREACHABLE,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary=f"there was no contact with the Job for {clock - silence.since:.0f} seconds, longer than "
        f"deadline_seconds; last trouble: {silence.trouble}",
        remedy="check that the Airflow connection still exists, that its cluster answers, and that its account may "
        "get, list and watch Jobs and pods; the Job ends at its own deadline, and a retry adopts it while it lives",
    )
    attempts = attempts_of(observation, now, rules)
    ended = [pod.ended or pod.gone for pod in observation.pods]
    return Outcome(
        kind=OutcomeKind.LOST,
        attempts=tuple(
            attempt if over else _unseen(attempt, verdict) for attempt, over in zip(attempts, ended, strict=True)
        ),
        verdict=verdict,
    )


def _unseen(attempt: Attempt, verdict: Verdict) -> Attempt:
    return replace(attempt, estimated=True, verdict=verdict)
