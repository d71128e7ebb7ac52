"""Teardown of a training DAG: nothing that this DAG run made goes on holding GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator

from gpu_training.core.naming import ANNOTATION_OWNER, LABEL_DEPLOYMENT, LABEL_RUN, TaskTry, label_value, run_hash
from gpu_training.core.observation import observe_job
from gpu_training.operators.deployment import deployment_id
from gpu_training.operators.outcomes import final_where_retrying_is_useless
from gpu_training.operators.submission import run_to_end

if TYPE_CHECKING:
    from airflow.sdk import Context

    from gpu_training.cluster.connection import Cluster
    from gpu_training.core.events import JobReference

_PATIENCE_S: Final = 60.0
"""Twice a pod's default grace period."""


class CleanUpOperator(BaseOperator):
    """Deletes the Jobs of its own DAG run, and of no other.

    Live ones, which hold GPUs, and those that succeeded, whose result is known by now. One that failed stays until its
    time to live is over, because its pods say why. That there is nothing to delete is fine.

    :param kubernetes_conn_id: connection to the cluster.
    :param namespace: where the run's Jobs are.
    :returns: names of the Jobs that were deleted.
    """

    template_fields: Sequence[str] = ("kubernetes_conn_id", "namespace")

    def __init__(self, *, kubernetes_conn_id: str = "kubernetes_gpu", namespace: str = "gpu-training", **kwargs: Any):
        super().__init__(**kwargs)
        self.kubernetes_conn_id = kubernetes_conn_id
        self.namespace = namespace

    def execute(self, context: Context) -> list[str]:
        """Delete, and wait a bounded time until the pods are gone."""
        run = context["dag_run"]
        with final_where_retrying_is_useless():
            return run_to_end(self._clean_up(run.dag_id, run.run_id))

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
