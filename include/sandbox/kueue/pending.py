"""Who waits where, as Kueue's own API server tells it."""

from __future__ import annotations

import http.client
from dataclasses import dataclass

from sandbox.api import ApiError
from sandbox.cluster import Sandbox
from sandbox.kueue.installation import VISIBILITY_GROUP
from sandbox.kueue.queues import QUEUE_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A workload that waits for its quota; positions count from 0.

    :param job: name of the Job that it stands for; empty where it stands for none.
    """

    workload: str
    job: str
    priority: int
    position: int
    position_in_cluster_queue: int


def pending_workloads(sandbox: Sandbox, namespace: str, queue: str) -> list[Pending]:
    """Give what waits in a local queue, the next one first.

    :raises sandbox.api.ApiError: there is no such queue, or Kueue is not installed.
    """
    path = f"/apis/{VISIBILITY_GROUP}/v1beta2/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
    return [
        Pending(
            workload=item["metadata"]["name"],
            job=next(
                (each["name"] for each in item["metadata"].get("ownerReferences", ()) if each["kind"] == "Job"), ""
            ),
            priority=item["priority"],
            position=item["positionInLocalQueue"],
            position_in_cluster_queue=item["positionInClusterQueue"],
        )
        for item in sandbox.api.request("GET", path)["items"]
    ]


def queue_position(sandbox: Sandbox, namespace: str, job: str) -> Pending | None:
    """Give where a Job waits; None where it does not wait.

    :raises sandbox.api.ApiError: there is no such Job, or Kueue is not installed.
    """
    labels = sandbox.api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{job}")["metadata"].get(
        "labels", {}
    )
    if QUEUE_LABEL not in labels:
        return None
    try:
        waiting = pending_workloads(sandbox, namespace, labels[QUEUE_LABEL])
    except ApiError as error:
        if error.status == http.client.NOT_FOUND:
            return None
        raise
    return next((each for each in waiting if each.job == job), None)
