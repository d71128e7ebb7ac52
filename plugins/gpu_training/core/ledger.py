"""The ledger of a lineage: its Jobs and their attempts, the budget's periods, who claimed what, and what is trained.

Plain values and the questions that they answer; :mod:`gpu_training.core.consequence` decides by them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from gpu_training.contract import Result
from gpu_training.core.attempts import Attempt, pulled_down
from gpu_training.core.budget import Allowance
from gpu_training.core.queue_time import Interval, seconds_within
from gpu_training.core.verdict import Action, Category, Verdict

JOBS_KEPT: Final = 40
"""Jobs whose attempts are kept one by one, and generations whose results are. A ConfigMap holds a mebibyte."""
CLAIMS_KEPT: Final = 200


class Ending(StrEnum):
    """How a Job of the lineage ended. Stable names."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    """It is gone, and nobody saw how it ended."""
    DELETED = "deleted"
    """The last one who waited has left."""
    REPLACED = "replaced"


# Ended from outside: how their running attempts ended is not the program's doing.
_TAKEN_AWAY: Final = frozenset({Ending.LOST, Ending.DELETED, Ending.REPLACED})
_ENDED_BY_A_KILL: Final = frozenset({Category.INTERRUPTED, Category.KILLED, Category.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerJob:
    """One Job of the lineage.

    :param uid: None until the API server's answer to its creation was written down.
    :param period: period of the budget that it spends.
    :param created_at: seconds since 1970, as all times here.
    :param gpus: GPUs of all its pods together.
    :param memory: memory limit of the training container.
    :param on_demand: whether it is the one of the spot fallback.
    :param checkpoint_uri: of its spec: checkpoints in one place are of no use to who reads another; "" for none.
    :param seen_until: until when everything that its pods did is among the attempts.
    :param unseen_gpu_seconds: what it may have used while nobody watched: charged in full.
    :param waited: when it waited for a node, as intervals that do not meet.
    :param verdict: what its end means; None while it lives and when it succeeded.
    """

    number: int
    generation: int
    period: int
    name: str
    uid: str | None
    created_at: float
    gpus: int
    memory: str
    allowance: Allowance
    on_demand: bool = False
    checkpoint_uri: str = ""
    seen_until: float = 0.0
    ended_at: float | None = None
    ending: Ending | None = None
    verdict: Verdict | None = None
    attempts: tuple[Attempt, ...] = ()
    unseen_gpu_seconds: float = 0.0
    waited: tuple[Interval, ...] = ()

    @property
    def gpu_seconds(self) -> float:
        """All that it has used."""
        return round(sum(attempt.gpu_seconds for attempt in self.attempts) + self.unseen_gpu_seconds, 3)

    @property
    def failures(self) -> int:
        """Attempts that failed by themselves."""
        return sum(self._failed_by_itself(attempt) for attempt in self.attempts)

    @property
    def disruptions(self) -> int:
        """Attempts that were lost to what is not theirs: reclaim, preemption, node loss, refused admission."""
        return sum(a.verdict is not None and a.verdict.action is Action.WAIT for a in self.attempts)

    def wall_seconds(self, now: float) -> float:
        """Length of its life so far, less the time in the queue; nothing before it was there."""
        end = self.ended_at if self.ended_at is not None else now
        if self.uid is None:
            return 0.0
        return max(0.0, end - self.created_at - seconds_within(self.waited, self.created_at, end))

    def _failed_by_itself(self, attempt: Attempt) -> bool:
        if attempt.verdict is None or attempt.verdict.action is Action.WAIT:
            return False
        if attempt.verdict.category not in _ENDED_BY_A_KILL:
            return True
        return self.ending not in _TAKEN_AWAY and not pulled_down(attempt, self.attempts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a task instance asked for last, pinned for its retries.

    :param task: as :attr:`TaskTry.task` gives it.
    :param max_tries: Airflow raises it when a person clears the task, and only then.
    :param number: Job that it waited on; 0 when it was green by what was trained before.
    :param delivered: whether the task has got what it asked for, and ended well.
    """

    task: str
    max_tries: int
    generation: int
    number: int
    at: float
    delivered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """A person asked for more: a fresh budget, or a new generation."""

    at: float
    task: str
    generation: int
    period: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What a generation came to.

    :param image: digest reference that the node reported, or the spec's.
    """

    generation: int
    number: int
    job: str
    job_uid: str
    mlflow_run_id: str
    image: str
    at: float
    result: Result | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Everything that is known of a lineage.

    :param generation: the current one, from 1.
    :param period: of the budget, from 1; renewed by a person, and begun anew with each generation.
    :param next_number: number of the next Job.
    :param folded_gpu_seconds: of Jobs that are no longer listed one by one.
    """

    model: str
    deployment: str
    fingerprint: str
    generation: int = 1
    period: int = 1
    next_number: int = 1
    jobs: tuple[LedgerJob, ...] = ()
    claims: tuple[Claim, ...] = ()
    renewals: tuple[Renewal, ...] = ()
    trained: tuple[Trained, ...] = ()
    folded_jobs: int = 0
    folded_gpu_seconds: float = 0.0
    updated_at: float = field(default=0.0, compare=False)

    @property
    def open_job(self) -> LedgerJob | None:
        """The Job that lives, or was about to be made."""
        return next((job for job in reversed(self.jobs) if job.ended_at is None), None)

    def job(self, number: int) -> LedgerJob | None:
        return next((job for job in self.jobs if job.number == number), None)

    def claim(self, task: str) -> Claim | None:
        return next((claim for claim in self.claims if claim.task == task), None)

    def trained_in(self, generation: int) -> Trained | None:
        return next((trained for trained in self.trained if trained.generation == generation), None)

    def current_jobs(self) -> tuple[LedgerJob, ...]:
        """Give the Jobs that spend the current period of the budget."""
        return tuple(job for job in self.jobs if job.period == self.period)

    def with_job(self, job: LedgerJob) -> Ledger:
        """Give the ledger with a Job's newest record in place of the one before."""
        jobs = {each.number: each for each in (*self.jobs, job)}
        return replace(self, jobs=tuple(jobs[number] for number in sorted(jobs)))

    def with_claim(self, claim: Claim) -> Ledger:
        rest = [other for other in self.claims if other.task != claim.task]
        return replace(self, claims=(*rest, claim)[-CLAIMS_KEPT:])

    def with_trained(self, trained: Trained) -> Ledger:
        """Give the ledger with what a generation came to; the first one to be told stays."""
        if self.trained_in(trained.generation) is not None:
            return self
        return replace(self, trained=(*self.trained, trained)[-JOBS_KEPT:])

    def folded(self, *, kept: int = JOBS_KEPT) -> Ledger:
        """Give the ledger with the oldest ended Jobs of earlier periods summed up, where there are too many."""
        surplus = [job for job in self.jobs[:-kept] if job.period != self.period and job.ended_at is not None]
        if not surplus:
            return self
        return replace(
            self,
            jobs=tuple(job for job in self.jobs if job not in surplus),
            folded_jobs=self.folded_jobs + len(surplus),
            folded_gpu_seconds=round(self.folded_gpu_seconds + sum(job.gpu_seconds for job in surplus), 3),
        )


def attempts_before(ledger: Ledger, job: LedgerJob) -> tuple[Attempt, ...]:
    """Give the attempts of a Job's generation as those see them that look for checkpoints where it does.

    :param job: the newest record of one of the ledger's Jobs.
    """
    jobs = [
        each
        if each.checkpoint_uri == job.checkpoint_uri
        else replace(each, attempts=tuple(replace(attempt, checkpoint_step=None) for attempt in each.attempts))
        for each in ledger.with_job(job).jobs
    ]
    return attempts_in(replace(ledger, jobs=tuple(jobs)), job.generation)


def attempts_in(ledger: Ledger, generation: int) -> tuple[Attempt, ...]:
    """Give the attempts of a generation, numbered over all its Jobs."""
    attempts = [attempt for job in ledger.jobs if job.generation == generation for attempt in job.attempts]
    return tuple(replace(attempt, number=n) for n, attempt in enumerate(attempts, start=1))
