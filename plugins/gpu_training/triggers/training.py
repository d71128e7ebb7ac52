"""Waits for one training in the triggerer, or on the worker when the operator does not defer.

It keeps nothing of its own that matters: whatever process runs it next lists the same Job, reads the same ledger, and
reaches the same end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

from airflow.triggers.base import BaseTrigger, TriggerEvent

from gpu_training.core.decide import OutcomeKind, Policy
from gpu_training.core.events import JobReference, TrainingEvent, Work, to_payload
from gpu_training.core.hearing import Hearing
from gpu_training.core.naming import TaskTry
from gpu_training.core.observation import Observation, image_of
from gpu_training.core.pending_text import table
from gpu_training.core.results import remarks_on_result
from gpu_training.core.rule_documents import parse_rules
from gpu_training.core.terms import Terms
from gpu_training.core.verdict import LEFT
from gpu_training.rule_table import built_in_rules
from gpu_training.task_state import close_run, has_ended, is_alive, task_state, warm_up
from gpu_training.triggers.persistence import see_through
from gpu_training.triggers.vigil import Vigil
from gpu_training.triggers.voice import Voice

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster
    from gpu_training.cluster.ledger_store import LedgerStore
    from gpu_training.cluster.subscription import Subscription
    from gpu_training.core.clocks import Clocks
    from gpu_training.core.decide import Outcome
    from gpu_training.triggers.bookkeeper import Bookkeeper
    from gpu_training.triggers.exit import Exit
    from gpu_training.triggers.followed_logs import FollowedLogs
    from gpu_training.triggers.guarded_logs import GuardedLogs
    from gpu_training.triggers.watchman import Watchman

_WATCH_TRIES: Final = 4
_KILL_LIMIT_S: Final = 300.0
_KILL_TRIES: Final = 2
"""Airflow gives a kill 30 seconds by default."""
_LAST_WORDS_S: Final = 60.0
"""So long pods that are being deleted are listened to: twice their default grace period."""


class TrainingJobTrigger(BaseTrigger):
    """Waits until a training has ended, and fires exactly one event (:mod:`gpu_training.core.events`).

    Meanwhile the task log gets each phase, the pods' own lines, and progress; the lineage's ledger gets each attempt;
    and a Job whose budget is spent, or whose failure only a watcher can judge, is ended.

    :param cluster: which API server: the fields of :class:`~gpu_training.cluster.connection.ClusterAddress`.
    :param job: namespace, name and UID.
    :param number: number of the Job in its lineage.
    :param work: what is trained; handed on in the event.
    :param waiter: the task try that waits, as :meth:`TaskTry.to_text` gives it.
    :param deployment: id of the Airflow deployment; its Jobs are watched together.
    :param terms: what the lineage may spend: the fields of :class:`Terms`.
    :param mlflow_conn_id: connection through which a kill closes the MLflow run.
    :param contact_limit_seconds: longest time without contact to the Job that is waited out, by a monotonic clock: the
        Job's own deadline, after which it is over, seen or not. Counted anew in each process that runs the trigger.
    :param rules: the table of failure rules, as its to_document gives it; None for the built-in one.
    :param get_logs: whether the pods' lines go to the task log.
    :param result_required: whether a Job that is Complete needs a valid result document.
    """

    def __init__(
        self,
        *,
        cluster: dict[str, Any],
        job: dict[str, str],
        number: int,
        work: dict[str, Any],
        waiter: str,
        deployment: str,
        terms: dict[str, Any],
        mlflow_conn_id: str,
        contact_limit_seconds: float,
        rules: list[dict[str, Any]] | None = None,
        get_logs: bool = True,
        result_required: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.cluster = cluster
        self.job = job
        self.number = number
        self.work = work
        self.waiter = waiter
        self.deployment = deployment
        self.terms = terms
        self.mlflow_conn_id = mlflow_conn_id
        self.contact_limit_seconds = contact_limit_seconds
        self.rules = rules
        self.get_logs = get_logs
        self.result_required = result_required
        self._fired = False
        self._logs: FollowedLogs | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Give class path and every argument."""
        names = signature(TrainingJobTrigger).parameters
        return f"{type(self).__module__}.{type(self).__qualname__}", {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire once, and return at once: a trigger that lingers after its event is killed like one that waits."""
        waiter = TaskTry.from_text(self.waiter)
        if waiter is not None:
            warm_up(waiter)
        payload = await self.wait()
        self._fired = True
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]

    async def wait(self) -> dict[str, Any]:
        """Give the event's payload when the training has ended."""
        from gpu_training.cluster.connection import ClusterAddress
        from gpu_training.cluster.watch import SharedWatch
        from gpu_training.triggers.watchman import Watchman

        job = JobReference(**self.job)
        terms = Terms.from_document(self.terms)
        # Without the log there is no progress to be heard.
        clocks = terms.clocks if self.get_logs else replace(terms.clocks, stall_seconds=None)
        policy = self._policy()
        hearing = Hearing(policy.rules)
        async with (
            SharedWatch.subscribe(ClusterAddress(**self.cluster), job=job, deployment=self.deployment) as (
                subscription,
                cluster,
            ),
            self._followed(cluster, subscription, hearing, clocks) as logs,
        ):
            watchman = Watchman(subscription, cluster, self.log)
            vigil = Vigil(
                subscription,
                cluster,
                self._bookkeeper(cluster, job, policy, terms),
                Voice(self.log),
                hearing,
                logs,
                watchman,
                self._way_out(cluster, job, policy),
                policy=policy,
                clocks=clocks,
                log=self.log,
            )
            observation, outcome = await vigil.until_ended(contact_limit=self.contact_limit_seconds)
            if logs is not None:
                await logs.drain()
            settled = await vigil.settle(outcome)
            now = cluster.clock.now()
        self._say_end(settled.outcome, vigil.observe())
        return to_payload(
            TrainingEvent(
                job=job,
                work=Work(**self.work),
                outcome=settled.outcome,
                image=image_of(observation),
                spent=settled.spent,
                waiting=self._waiting(settled.outcome, watchman, now),
            )
        )

    def _say_end(self, outcome: Outcome, observation: Observation) -> None:
        if outcome.kind is OutcomeKind.SUCCEEDED:
            for remark in remarks_on_result(observation):
                self.log.warning("%s", remark)
        Voice(self.log).end(outcome)

    @asynccontextmanager
    async def _followed(
        self, cluster: Cluster, subscription: Subscription, hearing: Hearing, clocks: Clocks
    ) -> AsyncIterator[GuardedLogs | None]:
        from gpu_training.cluster.log_reader import CATCH_UP_S
        from gpu_training.cluster.logs import SILENCE_S
        from gpu_training.triggers.followed_logs import LogPlace, followed
        from gpu_training.triggers.guarded_logs import guarded

        if not self.get_logs:
            yield None
            return
        # Whether a log is silent or cut off is known when it is opened anew.
        silence = min(SILENCE_S, max(2 * CATCH_UP_S, (clocks.stall_seconds or 2 * SILENCE_S) / 2))
        place = LogPlace(
            log=self.log,
            waiter=TaskTry.from_text(self.waiter),
            deployment=self.deployment,
            task_instance=self.task_instance,
            conn_ids=tuple(each for each in (self.mlflow_conn_id, self.cluster.get("conn_id")) if each),
        )
        async with guarded(followed(cluster, subscription, hearing, place, silence=silence), self.log) as logs:
            self._logs = logs.followed
            yield logs

    @staticmethod
    def _waiting(outcome: Outcome, watchman: Watchman, now: float) -> tuple[str, ...]:
        """Give the last report of a wait that was given up."""
        if outcome.verdict is None or outcome.verdict.category not in LEFT or watchman.report is None:
            return ()
        return tuple(table(watchman.report, now))

    async def on_kill(self) -> None:
        """Leave the Job if the task instance has ended by a person's hand; the last one out deletes it.

        Airflow calls this, too, when another triggerer took the trigger over, and when the task was cleared; this try
        stays on the Job's list then: whoever runs next watches or adopts it.
        """
        await see_through(self._leave_if_ended(), limit=_KILL_LIMIT_S)

    async def _leave_if_ended(self) -> None:
        waiter = TaskTry.from_text(self.waiter)
        if self._fired or waiter is None:
            return
        state = await asyncio.to_thread(task_state, waiter)
        name = f"{self.job['namespace']}/{self.job['name']}"
        if not has_ended(state):
            self.log.info("Leaving Job %s as it is: the task is %s", name, state)
            return
        from gpu_training.cluster.connection import Cluster, ClusterAddress
        from gpu_training.cluster.departure import depart
        from gpu_training.triggers.last_words import last_words

        job = JobReference(**self.job)
        async with (
            Cluster(ClusterAddress(**self.cluster)) as cluster,
            last_words(cluster, job, self._logs, self.log) as words,
        ):
            deleted = await depart(
                cluster,
                self._store(cluster, tries=_KILL_TRIES),
                job,
                self.number,
                waiter,
                is_alive,
                policy=self._policy(),
                tries=_KILL_TRIES,
            )
            if not deleted:
                self.log.info("Left Job %s: the task is %s; others wait on it, or it is over", name, state)
                return
            self.log.info("Deleted Job %s: the task is %s, and nobody else waits on it", name, state)
            mlflow_run_id = self.work["mlflow_run_id"]
            await asyncio.to_thread(close_run, self.mlflow_conn_id, mlflow_run_id, self.log, killed=True)
            await words.tell(limit=_LAST_WORDS_S)

    def _policy(self) -> Policy:
        rules = built_in_rules() if self.rules is None else parse_rules(self.rules, "rules")
        return Policy(result_required=self.result_required, rules=rules)

    def _bookkeeper(self, cluster: Cluster, job: JobReference, policy: Policy, terms: Terms) -> Bookkeeper:
        from gpu_training.triggers.bookkeeper import Bookkeeper

        return Bookkeeper(
            cluster,
            self._store(cluster),
            job,
            self.number,
            policy=policy,
            terms=terms,
            mlflow_run_id=self.work["mlflow_run_id"],
            log=self.log,
        )

    def _way_out(self, cluster: Cluster, job: JobReference, policy: Policy) -> Exit:
        from gpu_training.triggers.exit import Exit

        return Exit(
            cluster,
            self._store(cluster),
            job,
            self.number,
            TaskTry.from_text(self.waiter),
            policy=policy,
            mlflow_conn_id=self.mlflow_conn_id,
            mlflow_run_id=self.work["mlflow_run_id"],
            log=self.log,
        )

    def _store(self, cluster: Cluster, *, tries: int = _WATCH_TRIES) -> LedgerStore:
        from gpu_training.cluster.ledger_store import LedgerStore, Lineage

        namespace = self.job["namespace"]
        lineage = Lineage.of_work(Work(**self.work), namespace=namespace, deployment=self.deployment)
        return LedgerStore(cluster, lineage, tries=tries)
