"""What must hold in every moment of the model, and at its end: the laws of one ledger over both retriers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tests.unit.core.lineage_actors import waiters_on
from tests.unit.core.lineage_airflow import Airflow, Task
from tests.unit.core.lineage_world import GRACE_S, Job, Pod, World

from gpu_training.core.budget import Budget
from gpu_training.core.exhaustion import LEAST_WALL_S
from gpu_training.core.ledger import Ending, Ledger, LedgerJob
from gpu_training.core.ledger_document import from_text, to_text
from gpu_training.core.verdict import Category

_REACTION_S: Final = 9
"""Within which a trigger that lives has seen what happened, and acted on it, were requests to take no time."""
_REQUESTS: Final = 6
_PROMPT_S: Final = 0.5
"""A request may take so long, that a trigger reads a log and ends a Job before its next pod comes."""
_UNEXPLAINED: Final = (Category.APPLICATION_ERROR, Category.KILLED, Category.UNKNOWN)
_TAKEN_AWAY: Final = (Ending.DELETED, Ending.REPLACED, Ending.LOST)


class Laws:
    """Watches a model."""

    def __init__(self, world: World, budget: Budget, *, queue_seconds: int, fallback: bool, pace: float) -> None:
        self.world, self.budget, self.fallback = world, budget, fallback
        self.queue_seconds = queue_seconds
        self.airflow: Airflow | None = None
        self.ledger: Ledger | None = None
        self.periods: dict[str, int] = {}
        self.unseen: set[str] = set()
        """Pods that were taken away while nobody looked."""
        self.prompt = pace <= _PROMPT_S
        self.reaction = _REACTION_S + _REQUESTS * pace

    # The ledger: nothing that was written down once is taken back.

    def written(self, before: Ledger, after: Ledger) -> None:
        before = self.ledger if self.ledger is not None else before
        assert from_text(to_text(after)) == after
        assert after.next_number >= before.next_number
        assert after.generation >= before.generation
        assert after.period >= before.period
        assert after.trained[: len(before.trained)] == before.trained
        for job in before.jobs:
            later = after.job(job.number)
            assert later is not None
            self._goes_on(job, later)
        if after.generation > before.generation:
            assert before.trained_in(before.generation) is not None
            # Whoever finds an end that nobody knew, and dies before acting on it, leaves a clear that looks like one
            # after the success.
            early = min(self._airflow().early_clears, self._airflow().deaths)
            assert after.generation - 1 <= sum(task.clears + task.retrain for task in self._tasks()) + early
        clears = self._airflow().early_clears + sum(task.clears for task in self._tasks())
        asked = clears + sum(task.by_person for task in self._tasks())
        assert after.period - 1 <= asked + after.generation - 1
        self.ledger = after
        self.periods = {job.name: job.period for job in after.jobs}

    def _goes_on(self, before: LedgerJob, after: LedgerJob) -> None:
        assert (after.uid == before.uid) or before.uid is None
        if before.ended_at is not None:
            assert (after.ended_at, after.ending, after.verdict) == (before.ended_at, before.ending, before.verdict)
            assert after.gpu_seconds >= before.gpu_seconds
        ends = {attempt.uid: attempt for attempt in after.attempts}
        for attempt in before.attempts:
            later = ends[attempt.uid]
            if attempt.ended_at is not None and not attempt.estimated:
                assert later.ended_at == attempt.ended_at
                explained = attempt.verdict is not None and attempt.verdict.category in _UNEXPLAINED
                assert later.verdict == attempt.verdict or explained
            elif attempt.ended_at is not None:
                assert later.ended_at is not None

    # The cluster: one training at a time, within the budget.

    def pod_is_made(self, pod: Pod) -> None:
        job = pod.job
        assert not [other.name for other in self.world.pods() if other is not pod and other.holds]
        assert [other.name for other in self.world.jobs if other.live] == [job.name]
        own, taken = self.count(job, ["own"]), self.count(job, ["disrupted", "refused"])
        since = self._airflow().watched_since(job)
        first = job.pods == [pod]
        watched = self.prompt and since is not None and since <= self.world.now - self.reaction
        if first or watched:
            assert own < self.budget.attempts
            assert taken <= self.budget.disruptions + self.fallback
        else:
            assert own <= self.budget.attempts
        if first:
            again = [o.name for o in self.world.jobs if o.trained and not o.hidden and o.generation == job.generation]
            assert not again

    def something_changed(self, job: Job) -> None:
        self._note_unseen(job)
        if job.ended_at is not None:
            assert job.ended_at - job.started - _waited(job) <= job.longest + GRACE_S + self.reaction
        limit, since = self.budget.gpu_seconds, self._airflow().watched_since(job)
        if limit is None or since is None or since > self.world.now:
            return
        ceiling = max(limit, self.spent(job, since)) + job.gpus * (GRACE_S + self.reaction) * (1 + self._released(job))
        assert self.spent(job, self.world.now) <= ceiling

    def _note_unseen(self, job: Job) -> None:
        since = self._airflow().watched_since(job)
        if since is None or since > self.world.now - self.reaction:
            self.unseen |= {pod.uid for pod in job.pods if pod.gone_at == self.world.now and pod.end == "disrupted"}

    def run_is_cleaned_up(self, task: Task) -> None:
        """Nothing runs on for which nobody waits."""
        alive = self._airflow().is_alive
        if task.worker is not None and task.worker.alive:
            return
        for job in self.world.jobs:
            if job.live and any(waiter.same_task(task.waiter) for waiter in waiters_on(job) or ()):
                assert any(alive(waiter) for waiter in waiters_on(job) or ())

    def end(self, ledger: Ledger) -> None:
        """Check the whole, after everything is over and somebody has looked."""
        assert ledger.open_job is None or ledger.open_job.uid is None
        for job in self.world.jobs:
            record = ledger.job(job.number)
            assert record is not None
            if record.uid == job.uid:
                self._is_charged(job, record)
            elif not job.hidden:
                assert record.uid is not None
        for task in self._tasks():
            if task.state == "success" and task.ended_by_itself:
                assert any(_did_its_work(pod) for pod in self.world.pods())
        for period in {job.period for job in ledger.jobs}:
            self._period_is_kept(period)

    def _is_charged(self, job: Job, record: LedgerJob) -> None:
        if not job.hidden:
            assert record.ending is Ending.SUCCEEDED or not job.trained
            assert ledger_has(self.ledger, job.generation) or not job.trained
        if record.ending is Ending.SUCCEEDED:
            assert any(_did_its_work(pod) for pod in job.pods)
        true = sum(pod.gpu_seconds(self.world.now) for pod in job.pods)
        unseen = job.gpus * (GRACE_S + 2) if record.ending in _TAKEN_AWAY or job.hidden else 0
        assert record.gpu_seconds >= true - unseen - 0.01
        guessed = record.unseen_gpu_seconds + sum(a.gpu_seconds for a in record.attempts if a.estimated)
        assert record.gpu_seconds - guessed <= true + 0.01

    def _period_is_kept(self, period: int) -> None:
        jobs = [job for job in self.world.jobs if self.periods[job.name] == period]
        taken = sum(job.deleting_at is not None and job.ended_at is None for job in jobs)
        lives = sum(_end_of(job) - job.created - _waited(job) for job in jobs)
        # Nobody watched when it got its node: its deadline still has room for the queue.
        queues = sum(self.queue_seconds for job in jobs if not job.lowered)
        assert lives <= self.budget.wall_seconds + LEAST_WALL_S + (GRACE_S + self.reaction) * (1 + taken) + queues
        assert _count(jobs, ["own"]) <= self.budget.attempts + 1

    # What is true.

    def count(self, job: Job, ends: list[str]) -> int:
        """Give how many pods of a Job's period ended so."""
        jobs = [other for other in self._same_period(job) if not other.hidden]
        return sum(pod.end in ends and pod.uid not in self.unseen for other in jobs for pod in other.pods)

    def spent(self, job: Job, moment: float) -> float:
        return sum(pod.gpu_seconds(moment) for other in self._same_period(job) for pod in other.pods)

    def _released(self, job: Job) -> int:
        return sum(other.deleting_at is not None for other in self._same_period(job))

    def _same_period(self, job: Job) -> list[Job]:
        period = self.periods[job.name]
        return [other for other in self.world.jobs if self.periods[other.name] == period]

    def _tasks(self) -> list[Task]:
        return self._airflow().tasks

    def _airflow(self) -> Airflow:
        assert self.airflow is not None
        return self.airflow


def ledger_has(ledger: Ledger | None, generation: int) -> bool:
    return ledger is not None and ledger.trained_in(generation) is not None


def _count(jobs: Iterable[Job], ends: list[str]) -> int:
    return sum(pod.end in ends for job in jobs for pod in job.pods if not job.hidden)


def _did_its_work(pod: Pod) -> bool:
    return pod.code == 0 and pod.end is None


def _waited(job: Job) -> float:
    """Give how long its pods waited for a node."""
    return sum((_end_of(job) if pod.scheduled is None else pod.scheduled) - pod.created for pod in job.pods)


def _end_of(job: Job) -> float:
    ends = [moment for moment in (job.ended_at, job.deleting_at, job.gone_at) if moment is not None]
    return min(ends)
