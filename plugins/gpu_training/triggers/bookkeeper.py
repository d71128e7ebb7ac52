"""Keeps the ledger of one Job while somebody watches it, and has the Job ended when its budget or a rule says so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from gpu_training.cluster.connection import MERGE_PATCH, Cluster
from gpu_training.cluster.jobs import delete_job, jobs_path
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.cluster.settlement import trained_by
from gpu_training.core.attempts import Attempt, attempts_of
from gpu_training.core.bookkeeping import book, close
from gpu_training.core.decide import Outcome, OutcomeKind, Policy
from gpu_training.core.errors import ClusterRejected, GpuTrainingError
from gpu_training.core.events import JobReference
from gpu_training.core.exhaustion import exhausted, seconds_left
from gpu_training.core.ledger import Ending, Ledger, LedgerJob, Trained, attempts_before, attempts_in
from gpu_training.core.ledger_news import SEEN_EVERY_S, is_idle, says_more
from gpu_training.core.observation import JobObservation, Observation, image_of
from gpu_training.core.orders import (
    REPLACED,
    admissions_of,
    due,
    ended_because,
    wanted_backoff_limit,
    wanted_deadline,
)
from gpu_training.core.queue_time import waits_since
from gpu_training.core.spending import spending
from gpu_training.core.terms import Terms
from gpu_training.core.verdict import LEFT, Category, Verdict
from gpu_training.task_log import TaskLog
from gpu_training.triggers.beginnings import Beginnings

_AGAIN_AFTER_S: Final = 5.0
LOG_PATIENCE_S: Final = 3.0
"""How long the end of a failed attempt's log is waited for. The next pod comes 10 s after it at the earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What the ledger says of the end.

    :param outcome: with the attempts of the whole generation.
    :param spent: what of the budget is spent; None while another Job may be made.
    """

    outcome: Outcome
    spent: str | None


class Bookkeeper:
    """The books of one Job. A ledger that can not be written is a warning: the Job itself says how it ended.

    :param number: of the Job in its lineage.
    :param terms: what the lineage may spend.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: LedgerStore,
        job: JobReference,
        number: int,
        *,
        policy: Policy,
        terms: Terms,
        mlflow_run_id: str,
        log: TaskLog,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._job = job
        self._number = number
        self._policy = policy
        self._terms = terms
        self._mlflow_run_id = mlflow_run_id
        self._log = log
        self._since: float | None = None
        self._quiet_until = 0.0
        self._ended_at: dict[str, float] = {}
        self._warned = False
        self._beginnings = Beginnings(terms.if_not_resumed, log)
        self.attempts: tuple[Attempt, ...] = ()
        """As the ledger has them, with what was seen last: those of before this watch are among them."""
        self.is_read = False
        """Whether the ledger was read, so that `attempts` are all that are known."""

    async def watch(self, observation: Observation, now: float) -> float | None:
        """Write down what is new, and act on it: end the Job that is over, make room for what a node turned away.

        :param now: seconds since 1970.
        :returns: seconds after which to call this again even if nothing changes; None for no need.
        """
        self._since = now if self._since is None else self._since
        seen = observation.job
        if seen is None:
            return None
        if monotonic() < self._quiet_until:
            return self._quiet_until - monotonic()
        try:
            record = await self._noted(observation, now)
            if record is None:
                return None
            self.attempts, self.is_read = record.attempts, True
            generation = self._of_generation(record)
            self._beginnings.tell(generation)
            begun_anew = self._beginnings.begun_anew(record.attempts, generation)
            await self._act(record, observation, seen, now, begun_anew)
        except GpuTrainingError as error:
            self._quiet_until = monotonic() + _AGAIN_AFTER_S
            self._warn(error)
            return _AGAIN_AFTER_S
        held = sum(attempt.gpus for attempt in record.attempts if attempt.ended_at is None and attempt.started_at)
        # With nothing left the Job was told to end: it has its grace period, or longer on a node that is cut off.
        left = seconds_left(record, record.allowance, held, now) or _AGAIN_AFTER_S
        left = min(left, self._beginnings.look_again(generation, now) or left)
        return min(left, SEEN_EVERY_S) if is_idle(record, seen) else left

    async def settle(self, observation: Observation, outcome: Outcome, now: float) -> Settled:
        """Write the end down, and give it with what the lineage has behind it.

        A Job that is merely out of reach may live: it stays open in the ledger, so that a retry adopts it. One that
        this waiter has left lives for others, or its deletion is written down already.
        """
        category = outcome.verdict.category if outcome.verdict is not None else None
        if category is Category.UNREACHABLE:
            return Settled(outcome=outcome, spent=None)
        if category in LEFT:
            return self._told(await self._read(), outcome, now)
        image = image_of(observation)

        def write(ledger: Ledger) -> tuple[Ledger, None]:
            before = ledger.job(self._number)
            if before is None or before.uid not in (None, self._job.uid):
                return ledger, None
            after = self._booked(before, observation, now) if before.ended_at is None else before
            ledger = ledger.with_job(close(after, outcome, now=now, memory_cap=self._terms.memory_cap))
            trained = trained_by(after, self._job, outcome, self._mlflow_run_id, image, now)
            return (ledger.with_trained(trained) if trained is not None else ledger), None

        try:
            await self._store.change(write, now=now)
        except GpuTrainingError as error:
            self._warn(error)
        return self._told(self._store.seen, outcome, now)

    async def _read(self) -> Ledger | None:
        try:
            return await self._store.read()
        except GpuTrainingError as error:
            self._warn(error)
            return None

    def _told(self, ledger: Ledger | None, outcome: Outcome, now: float) -> Settled:
        """Give the end with what the lineage has behind it, as far as the ledger is known."""
        record = ledger.job(self._number) if ledger is not None else None
        if ledger is None or record is None or record.uid != self._job.uid:
            return Settled(outcome=outcome, spent=None)
        attempts = attempts_in(ledger, record.generation) or outcome.attempts
        self._beginnings.tell(attempts_before(ledger, record))
        success = self._seen_by_others(ledger, record)
        if success is not None and outcome.kind is not OutcomeKind.SUCCEEDED:
            return Settled(
                outcome=Outcome(kind=OutcomeKind.SUCCEEDED, attempts=attempts, result=success.result), spent=None
            )
        return Settled(
            outcome=replace(
                outcome,
                attempts=attempts,
                verdict=REPLACED if record.ending is Ending.REPLACED else record.verdict or outcome.verdict,
            ),
            spent=exhausted(ledger, self._terms.budget, now, has_fallback=self._terms.has_fallback)
            if outcome.verdict
            else None,
        )

    def _seen_by_others(self, ledger: Ledger, record: LedgerJob) -> Trained | None:
        """Give what this very Job came to, where somebody else saw that it succeeded; its pods may be gone since."""
        trained = ledger.trained_in(record.generation)
        if trained is None or trained.job_uid != self._job.uid:
            return None
        return trained if trained.result is not None or not self._policy.result_required else None

    def _booked(self, record: LedgerJob, observation: Observation, now: float) -> LedgerJob:
        attempts = attempts_of(observation, now, self._policy.rules)
        since = self._since if self._since is not None else now
        return book(record, observation, attempts, now=now, watched_since=since)

    async def _noted(self, observation: Observation, now: float) -> LedgerJob | None:
        """Give the Job's record with what is seen now, written if it says anything new."""
        ledger = self._store.seen if self._store.seen is not None else await self._store.read()
        record = ledger.job(self._number)
        if record is None or record.uid != self._job.uid or record.ended_at is not None:
            return None
        if not self.is_read:
            self._beginnings.pass_over(attempts_before(ledger, record))
        booked = self._booked(record, observation, now)
        if not says_more(record, booked, observation.job):
            return booked

        def write(newest: Ledger) -> tuple[Ledger, LedgerJob | None]:
            before = newest.job(self._number)
            if before is None or before.uid != self._job.uid or before.ended_at is not None:
                return newest, None
            after = self._booked(before, observation, now)
            return newest.with_job(after) if says_more(before, after, observation.job) else newest, after

        return await self._store.change(write, now=now)

    async def _act(
        self,
        record: LedgerJob,
        observation: Observation,
        seen: JobObservation,
        now: float,
        begun_anew: Verdict | None,
    ) -> None:
        order = due(
            record,
            seen,
            now,
            logs_are_read=self._logs_are_read(record),
            attempts_left=self._attempts_left(record, now),
            begun_anew=begun_anew,
        )
        if ended_because(seen) is not None and seen.suspended and not seen.ended and not seen.deleting:
            # No deadline runs in a suspended Job: it would wait on, and be ended once its queue lets it begin.
            self._log.warning("Deleting Job %s, which is over and suspended", seen.name)
            await delete_job(self._cluster, self._job)
            return
        if order is not None:
            self._log.warning("Ending Job %s: %s", seen.name, order.verdict.summary)
            await self._patch(order.patch())
            return
        if seen.ended or seen.deleting or ended_because(seen):
            return
        limits: dict[str, object] = {}
        wanted = wanted_backoff_limit(record.allowance, admissions=admissions_of(record))
        if seen.backoff_limit is not None and seen.backoff_limit < wanted:
            limits["backoffLimit"] = wanted
        deadline = wanted_deadline(
            record,
            seen,
            now,
            waits_since=waits_since(observation, now, record.attempts),
            queue_seconds=self._terms.clocks.queue_seconds,
        )
        if deadline is not None:
            limits["activeDeadlineSeconds"] = deadline
        if limits:
            await self._patch({"spec": limits})

    def _of_generation(self, record: LedgerJob) -> tuple[Attempt, ...]:
        """Give the attempts of all Jobs of the generation, with what is seen of this one now."""
        return record.attempts if self._store.seen is None else attempts_before(self._store.seen, record)

    def _attempts_left(self, record: LedgerJob, now: float) -> int:
        ledger = self._store.seen
        jobs = ledger.with_job(record).current_jobs() if ledger is not None else (record,)
        return self._terms.budget.attempts - spending(jobs, now).failures

    def _logs_are_read(self, record: LedgerJob) -> bool:
        ended = {attempt.uid for attempt in record.attempts if attempt.ended_at is not None}
        for uid in ended:
            self._ended_at.setdefault(uid, monotonic())
        return all(monotonic() >= self._ended_at[uid] + LOG_PATIENCE_S for uid in ended)

    async def _patch(self, patch: dict[str, object]) -> None:
        metadata = patch.get("metadata")
        body = {**patch, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "uid": self._job.uid}}
        try:
            await self._cluster.request(
                "PATCH",
                jobs_path(self._job.namespace, self._job.name),
                doing=f"change the limits of Job {self._job.namespace}/{self._job.name}",
                body=body,
                content_type=MERGE_PATCH,
            )
        except ClusterRejected as error:
            # 404: gone; 409 and 422: another Job of the name by now.
            if error.status not in (404, 409, 422):
                raise

    def _warn(self, error: GpuTrainingError) -> None:
        if not self._warned:
            self._warned = True
            self._log.warning("The ledger is not kept, the training goes on: %s", error)
