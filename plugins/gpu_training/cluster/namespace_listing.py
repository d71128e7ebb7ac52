"""One look at a namespace: all our Jobs, their pods and their ledgers, in as many requests however many there are."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.jobs import jobs_path, list_pages, pods_path
from gpu_training.cluster.ledger_store import config_maps_path
from gpu_training.core.errors import ClusterRejected
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LEDGER, TRAINING_CONTAINER, label_value
from gpu_training.core.status import Listing
from gpu_training.core.status_progress import LINES

_TRIES: Final = 2
"""Somebody sits in front of it."""
_LONGEST_LOG: Final = 4 * 1024 * 1024
"""As much as the lines that are asked for take when each of them is as long as the kubelet writes one."""
_PART: Final = 64 * 1024
_SILENCE_S: Final = 10.0


async def look_at(cluster: Cluster, namespace: str, *, deployment: str | None = None) -> Listing:
    """Give what is there of our trainings.

    :param deployment: only that Airflow's; None for those of every one.
    :raises ClusterUnavailable: the API server can not be reached.
    :raises ClusterRejected: not even the Jobs may be listed.
    """
    ours = LABEL_DEPLOYMENT if deployment is None else f"{LABEL_DEPLOYMENT}={label_value(deployment)}"
    hidden: list[str] = []
    ledgers = await _unless_forbidden(
        cluster, config_maps_path(namespace), f"{LABEL_LEDGER}=true,{ours}", "ledgers", namespace, hidden
    )
    jobs = await _listed(cluster, jobs_path(namespace), ours, "Jobs", namespace)
    pods = await _unless_forbidden(cluster, pods_path(namespace), ours, "pods", namespace, hidden)
    return Listing(jobs=jobs, pods=pods, ledgers=ledgers, hidden=tuple(hidden))


async def _unless_forbidden(
    cluster: Cluster, path: str, selector: str, what: str, namespace: str, hidden: list[str]
) -> tuple[Document, ...] | None:
    """Give a list; None where the account may not read it, and say so."""
    try:
        return await _listed(cluster, path, selector, what, namespace)
    except ClusterRejected as error:
        hidden.append(str(error))
        return None


async def _listed(cluster: Cluster, path: str, selector: str, what: str, namespace: str) -> tuple[Document, ...]:
    pages = list_pages(
        cluster,
        path,
        doing=f"list {what} in namespace {namespace!r}",
        query={"labelSelector": selector},
        tries=_TRIES,
    )
    return tuple([item async for page in pages for item in page["items"]])


async def is_missing(cluster: Cluster, namespace: str) -> bool:
    """Whether the API server says that there is no such namespace; False, too, where the account may not ask."""
    try:
        await cluster.request(
            "GET", f"/api/v1/namespaces/{quote(namespace)}", doing=f"read namespace {namespace!r}", tries=_TRIES
        )
    except ClusterRejected as error:
        return error.status == 404
    return False


async def end_of_log(cluster: Cluster, namespace: str, pod: str) -> str:
    """Give the last lines of a pod's training container, each with its time.

    :raises ClusterUnavailable: the API server, or the node's kubelet, can not be reached.
    :raises ClusterRejected: the account may not read logs, or the pod is gone.
    """
    query = {"container": TRAINING_CONTAINER, "tailLines": str(LINES), "timestamps": "true"}
    read = b""
    async with cluster.stream(
        f"{pods_path(namespace, pod)}/log", doing=f"read the log of pod {pod}", query=query, idle=_SILENCE_S
    ) as body:
        while len(read) < _LONGEST_LOG and (part := await body.read(_PART)):
            read += part
    return read.decode(errors="replace")
