"""What happens on the worker when its task is killed while there is a Job.

Airflow sends SIGTERM both when a person ended the task and when only the worker goes away; the task instance's state
tells them apart.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.training_container import mlflow_run_of
from gpu_training.operators.plan import Plan, lineage_of
from gpu_training.operators.submission import run_to_end
from gpu_training.task_log import TaskLog
from gpu_training.task_state import close_run, has_ended, is_alive, task_state

if TYPE_CHECKING:
    from gpu_training.cluster.connection import ClusterAddress

_PATIENCE_S: Final = 4.0
"""Airflow waits 5 seconds after SIGTERM, then kills the process."""
_TRIES: Final = 2
_RESCHEDULE_AFTER: Final = timedelta(seconds=15)
"""Sooner, the scheduler may queue the task anew before it hears that the old process has ended, and takes that for a
failure: observed with Airflow 3.3.2."""

T = TypeVar("T")


class Ending(Enum):
    """Why a task that was killed ends."""

    STOP = "it waits no more; the last one out deletes the Job"
    LEAVE = "its Job goes on"


class KillSwitch:
    """One try's: made before its Job, so that a kill finds the Job however early it comes.

    :ivar ending: None while nobody has killed the task.
    """

    def __init__(self, *, plan: Plan, address: ClusterAddress, mlflow_conn_id: str, log: TaskLog) -> None:
        self.ending: Ending | None = None
        self._plan = plan
        self._address = address
        self._mlflow_conn_id = mlflow_conn_id
        self._log = log
        self._interrupt: Callable[[], object] | None = None

    def pull(self, *, timed_out: bool) -> None:
        """Wait for the Job no more, or leave it as it is; returns in time for Airflow.

        Called inside a signal handler. The work is done in a thread, because the interrupted code may hold any lock.

        :param timed_out: whether the task's execution_timeout has passed: the task ends, though it still runs.
        """
        # With the task's context, so that what is logged there is its own.
        decide = partial(contextvars.copy_context().run, self._decide, timed_out)
        thread = Thread(target=decide, name="kill-switch")
        thread.start()
        thread.join(_PATIENCE_S)

    def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, unless the task is killed.

        :raises AirflowRescheduleException: the worker goes away; the scheduler gives the same try to another one.
        :raises AirflowException: the task was ended.
        """

        async def run() -> T:
            task = asyncio.create_task(work)
            self._interrupt = partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel)
            if self.ending is not None:
                task.cancel()
            try:
                return await task
            finally:
                self._interrupt = None

        try:
            return run_to_end(run())
        except asyncio.CancelledError:
            if self.ending is Ending.LEAVE:
                again = datetime.now(UTC) + _RESCHEDULE_AFTER
                raise AirflowRescheduleException(again) from None  # type: ignore[no-untyped-call]
            raise AirflowException(
                "the task was ended while it waited; its Job is deleted unless others wait"
            ) from None

    @contextmanager
    def no_job_left_behind(self, *, last: bool) -> Iterator[None]:
        """Leave the Job if the block fails and no try follows that would adopt it; Airflow calls no on_kill then.

        What the block raised is raised, whatever becomes of the Job.

        :param last: whether Airflow retries no more, whatever the failure.
        """
        try:
            yield
        except Exception as error:
            if self.ending is None and (last or isinstance(error, AirflowFailException)):
                try:
                    self.leave()
                except Exception as fault:  # of whatever kind: the first failure is the one to tell
                    self._log.warning("The Job was not left; clean_up, or its deadline, ends it: %s", fault)
            raise

    def leave(self) -> None:
        """Leave every live Job that this try waits on: the last one out deletes it, and closes its MLflow run. Faults
        are warnings."""
        from gpu_training.cluster.connection import Cluster
        from gpu_training.cluster.departure import depart_from_all
        from gpu_training.cluster.ledger_store import LedgerStore

        async def depart() -> list[dict[str, Any]]:
            async with Cluster(self._address) as cluster:
                store = LedgerStore(cluster, lineage_of(self._plan), tries=_TRIES)
                owner, policy = self._plan.identity.owner, self._plan.policy
                return await depart_from_all(cluster, store, owner, is_alive, policy=policy, tries=_TRIES)

        try:
            deleted = run_to_end(depart())
        except GpuTrainingError as error:
            self._log.warning("The Job was not left; clean_up, or its deadline, ends it: %s", error)
            return
        for job in deleted:
            self._log.info("Deleted Job %s: nobody waits on it any more", job["metadata"]["name"])
            close_run(self._mlflow_conn_id, mlflow_run_of(job), self._log, killed=True)

    def _decide(self, timed_out: bool) -> None:
        try:
            state = "timed out" if timed_out else task_state(self._plan.identity.owner)
        except Exception as exc:  # of whatever kind: without an answer the Job is left alone
            self._log.warning("The task's state could not be asked for: %s", exc)
            state = "unknown"
        ends = timed_out or has_ended(state)
        self.ending = Ending.STOP if ends else Ending.LEAVE
        # Before the Job goes, or the wait might take that for the training's end.
        if self._interrupt is not None:
            with suppress(RuntimeError):  # the loop has just ended by itself
                self._interrupt()
        if ends:
            self._log.warning("No longer waiting for the Job: the task is %s", state)
            self.leave()
        else:
            self._log.warning("Leaving the Job: the task is %s, only this process ends", state)
