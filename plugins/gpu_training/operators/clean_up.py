"""Teardown of a training DAG: nothing that this DAG run made goes on holding GPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from gpu_training.core.naming import ANNOTATION_OWNER, LABEL_DEPLOYMENT, LABEL_RUN, TaskTry, label_value, run_hash
from gpu_training.core.observation import observe_job
from gpu_training.operators.deployment import deployment_id
from gpu_training.operators.outcomes import final_where_retrying_is_useless
from gpu_training.operators.submission import mlflow_run_of, run_to_end
from gpu_training.task_state import close_run, task_states

if TYPE_CHECKING:
    from airflow.sdk import Context

    from gpu_training.cluster.connection import Cluster
    from gpu_training.core.events import JobReference

_PATIENCE_S: Final = 60.0
"""Twice a pod's default grace period."""


class CleanUpOperator(BaseOperator):
    """Deletes the Jobs of its own DAG run, and of no other.

    Live ones, which hold GPUs, and those that succeeded, whose result is known by now. One that failed stays until its
    time to live is over, because its pods say why. That there is nothing to delete is fine. The MLflow run of a live
    Job that is deleted is closed as KILLED.

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
        from gpu_training.cluster.jobs import delete_job, list_jobs, reference_of

        deployment = deployment_id()
        labels = {LABEL_DEPLOYMENT: label_value(deployment), LABEL_RUN: run_hash(deployment, dag_id, run_id)}
        deleted: list[JobReference] = []
        async with Cluster(ClusterAddress(conn_id=self.kubernetes_conn_id)) as cluster:
            for document in await list_jobs(cluster, self.namespace, labels):
                job = observe_job(document)
                owner = TaskTry.from_text(job.annotations.get(ANNOTATION_OWNER, ""))
                if owner is None or (owner.dag_id, owner.run_id) != (dag_id, run_id):
                    self.log.warning(
                        "Leaving Job %s: its label says this run made it, its owner mark does not", job.name
                    )
                elif job.condition("Failed") is not None:
                    self.log.info("Leaving Job %s for a look at why it failed, until its TTL is over", job.name)
                elif await delete_job(cluster, reference_of(document)):
                    self.log.info("Deleted Job %s", job.name)
                    deleted.append(reference_of(document))
                    if not job.ended:
                        run = mlflow_run_of(document)
                        await asyncio.to_thread(close_run, self.mlflow_conn_id, run, self.log, killed=True)
            await self._wait_gone(cluster, deleted)
        return [job.name for job in deleted]

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
