"""Teardown of a training DAG: nothing that this DAG run made goes on holding GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from gpu_training.core.naming import (
    ANNOTATION_FINGERPRINT,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    LABEL_MODEL,
    LABEL_RUN,
    label_value,
    run_hash,
)
from gpu_training.core.observation import JobObservation, observe_job
from gpu_training.core.training_container import mlflow_run_of
from gpu_training.operators.deployment import deployment_id
from gpu_training.operators.outcomes import final_where_retrying_is_useless
from gpu_training.operators.submission import run_to_end
from gpu_training.task_state import close_run, is_alive, task_states

if TYPE_CHECKING:
    from airflow.sdk import Context

    from gpu_training.cluster.connection import Cluster
    from gpu_training.cluster.ledger_store import LedgerStore
    from gpu_training.core.events import JobReference

_PATIENCE_S: Final = 60.0
"""Twice a pod's default grace period."""


class CleanUpOperator(BaseOperator):
    """Takes its own DAG run off the Jobs that it waited on; what nobody else waits on is deleted.

    Live Jobs, which hold GPUs, and those that succeeded, whose result is known by now. One that failed stays until its
    time to live is over, because its pods say why. That there is nothing to delete is fine. The MLflow run of a live
    Job that is deleted is closed as KILLED. Ledgers in which nothing has happened for a month are deleted, too.

    :param kubernetes_conn_id: connection to the cluster.
    :param mlflow_conn_id: connection to MLflow.
    :param namespace: where the run's Jobs are.
    :param training_task_id: task that trains; given together with `result_task_id`, a run that a person marked as
        failed ends as failed: Airflow skips what had not begun, and judges the run anew after its teardown.
    :param result_task_id: task that makes the training count.
    :returns: names of the Jobs that were deleted.
    """

    template_fields: Sequence[str] = ("kubernetes_conn_id", "mlflow_conn_id", "namespace")

    def __init__(
        self,
        *,
        kubernetes_conn_id: str = "kubernetes_gpu",
        mlflow_conn_id: str = "mlflow_tracking",
        namespace: str = "gpu-training",
        training_task_id: str | None = None,
        result_task_id: str | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.mlflow_conn_id = mlflow_conn_id
        self.namespace = namespace
        self.training_task_id = training_task_id
        self.result_task_id = result_task_id

    def execute(self, context: Context) -> list[str]:
        """Delete, and wait a bounded time until the pods are gone.

        :raises AirflowFailException: the run was marked as failed by a person, which would not show otherwise.
        """
        run = context["dag_run"]
        with final_where_retrying_is_useless():
            deleted = run_to_end(self._clean_up(run.dag_id, run.run_id))
        if self._was_ended_by_hand(run.dag_id, run.run_id):
            raise AirflowFailException(
                f"everything is cleaned up; failing because {self.training_task_id} failed while {self.result_task_id} "
                "was skipped, as Airflow does in a run that is marked as failed: it would end as a success"
            )
        return deleted

    def _was_ended_by_hand(self, dag_id: str, run_id: str) -> bool:
        if self.training_task_id is None or self.result_task_id is None:
            return False
        states = task_states(dag_id, run_id, [self.training_task_id, self.result_task_id])
        return states.get(self.training_task_id) == "failed" and states.get(self.result_task_id) == "skipped"

    async def _clean_up(self, dag_id: str, run_id: str) -> list[str]:
        from gpu_training.cluster.connection import Cluster, ClusterAddress
        from gpu_training.cluster.jobs import list_jobs
        from gpu_training.cluster.pruning import KEEP_DAYS, prune

        labels = {LABEL_DEPLOYMENT: label_value(deployment_id())}
        deleted: list[JobReference] = []
        async with Cluster(ClusterAddress(conn_id=self.kubernetes_conn_id)) as cluster:
            for document in await list_jobs(cluster, self.namespace, labels):
                deleted += await self._leave(cluster, document, dag_id, run_id)
            await self._wait_gone(cluster, deleted)
            for name in await prune(cluster, self.namespace, deployment_id(), now=cluster.clock.now()):
                self.log.info("Deleted ledger %s: nothing happened in it for %d days", name, KEEP_DAYS)
        return [job.name for job in deleted]

    async def _leave(self, cluster: Cluster, document: dict[str, Any], dag_id: str, run_id: str) -> list[JobReference]:
        """Take this run off a Job's list; the last one out deletes it, but for one that failed."""
        from gpu_training.cluster.departure import depart
        from gpu_training.cluster.jobs import number_of, reference_of
        from gpu_training.cluster.waiting_list import waiters_on

        job, reference = observe_job(document), reference_of(document)
        waiters = waiters_on(document)
        if waiters is None:
            if job.labels.get(LABEL_RUN) == run_hash(deployment_id(), dag_id, run_id):
                self.log.warning("Leaving Job %s: this run made it, but who waits on it was edited", job.name)
            return []
        own = [waiter for waiter in waiters if (waiter.dag_id, waiter.run_id) == (dag_id, run_id)]
        if own and job.condition("Failed") is not None:
            self.log.info("Leaving Job %s for a look at why it failed, until its TTL is over", job.name)
            return []
        store = self._store(cluster, job)
        for waiter in own:
            if await depart(cluster, store, reference, number_of(job.name), waiter, is_alive):
                self.log.info("Deleted Job %s", job.name)
                if not job.ended:
                    run = mlflow_run_of(document)
                    await asyncio.to_thread(close_run, self.mlflow_conn_id, run, self.log, killed=True)
                return [reference]
        if own:
            self.log.info("Leaving Job %s: others wait on it", job.name)
        return []

    def _store(self, cluster: Cluster, job: JobObservation) -> LedgerStore:
        from gpu_training.cluster.ledger_store import LedgerStore, Lineage

        lineage = Lineage(
            namespace=self.namespace,
            model=job.labels.get(LABEL_MODEL, ""),
            deployment=deployment_id(),
            fingerprint=job.annotations.get(ANNOTATION_FINGERPRINT, ""),
            key=job.labels.get(LABEL_LINEAGE, ""),
        )
        return LedgerStore(cluster, lineage)

    async def _wait_gone(self, cluster: Cluster, jobs: Sequence[JobReference]) -> None:
        from gpu_training.cluster.jobs import list_pods, wait_gone

        deadline = monotonic() + _PATIENCE_S
        for job in jobs:
            if await wait_gone(cluster, job, limit=max(0.0, deadline - monotonic())):
                continue
            for pod in await list_pods(cluster, job):
                metadata = pod["metadata"]
                self.log.warning(
                    "Pod %s on %s has not ended %g s after its Job was deleted (finalizers: %s)",
                    metadata["name"],
                    pod["spec"].get("nodeName", "no node"),
                    _PATIENCE_S,
                    metadata.get("finalizers") or "none",
                )
