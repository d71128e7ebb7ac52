"""Giving up: whoever waits leaves the Job, which goes with the last one before the task fails."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.departure import depart
from gpu_training.cluster.jobs import read_job, wait_gone
from gpu_training.cluster.waiting_list import waiters_on
from gpu_training.core.decide import Policy
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import JobReference
from gpu_training.core.naming import ANNOTATION_WAITERS, TaskTry
from gpu_training.core.observation import observe_job
from gpu_training.core.verdict import Category, Verdict
from gpu_training.task_log import TaskLog
from gpu_training.task_state import close_run, is_alive

if TYPE_CHECKING:
    from gpu_training.cluster.ledger_store import LedgerStore

_GONE_WITHIN_S: Final = 120.0
"""Four times a pod's default grace period."""
_AGAIN_AFTER_S: Final = 5.0
_SPENDS_AN_ATTEMPT: Final = frozenset({Category.STARTUP_TIMEOUT, Category.RUN_TIMEOUT, Category.STALLED})
"""What the attempt itself took too long for; a Secret that is not there is no failure of the training."""


class Exit:
    """The way out of one wait.

    :param number: of the Job in its lineage.
    :param waiter: the task try that waits; None where it is not known, which leaves the Job as it is.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: LedgerStore,
        job: JobReference,
        number: int,
        waiter: TaskTry | None,
        *,
        policy: Policy,
        mlflow_conn_id: str,
        mlflow_run_id: str,
        log: TaskLog,
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._job = job
        self._number = number
        self._waiter = waiter
        self._policy = policy
        self._mlflow_conn_id = mlflow_conn_id
        self._mlflow_run_id = mlflow_run_id
        self._log = log
        self._quiet_until = float("-inf")
        self._deleted = False

    async def take(self, verdict: Verdict) -> bool:
        """Leave the Job, and return when it is gone with its pods, or lives for others.

        :param verdict: why; it is what the end of an attempt means that runs.
        :returns: False while the API server can not be asked: try again.
        """
        if monotonic() < self._quiet_until:
            return False
        name = f"{self._job.namespace}/{self._job.name}"
        self._log.warning("Giving up on Job %s: %s", name, verdict.summary)
        if self._waiter is None:
            return True
        try:
            # What was deleted before the API server fell silent is not left once more.
            self._deleted = self._deleted or await self._depart(self._waiter, verdict)
            gone = self._deleted and await wait_gone(self._cluster, self._job, limit=_GONE_WITHIN_S)
        except GpuTrainingError as error:
            self._log.warning("Job %s could not be left, it is tried again: %s", name, error)
            self._quiet_until = monotonic() + _AGAIN_AFTER_S
            return False
        if not self._deleted:
            await self._say_who_is_left(name)
            return True
        await asyncio.to_thread(close_run, self._mlflow_conn_id, self._mlflow_run_id, self._log, killed=False)
        if gone:
            self._log.info("Deleted Job %s: nobody else waits on it", name)
        else:
            self._log.warning("Deleted Job %s; its pods are not gone after %g s", name, _GONE_WITHIN_S)
        return True

    async def _say_who_is_left(self, name: str) -> None:
        try:
            document = await read_job(self._cluster, self._job.namespace, self._job.name, tries=1)
        except GpuTrainingError:
            document = None
        is_there = document is not None and document["metadata"]["uid"] == self._job.uid
        if document is None or not is_there or observe_job(document).ended or waiters_on(document):
            self._log.info("Left Job %s: others wait on it, or it is over", name)
            return
        self._log.warning(
            "Job %s is left alone, and goes on: this task is not on the list of those who wait on it, somebody edited "
            "that (annotation %s); delete it if nobody needs it: kubectl -n %s delete job %s",
            name,
            ANNOTATION_WAITERS,
            self._job.namespace,
            self._job.name,
        )

    async def _depart(self, waiter: TaskTry, verdict: Verdict) -> bool:
        return await depart(
            self._cluster,
            self._store,
            self._job,
            self._number,
            waiter,
            is_alive,
            policy=self._policy,
            because=verdict if verdict.category in _SPENDS_AN_ATTEMPT else None,
        )
