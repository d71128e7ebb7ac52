"""Jobs and their pods: read, delete, check by a dry run. A delete names the UID it means, so that an object of the same
name made meanwhile is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from gpu_training.cluster.connection import TRIES, Cluster, Document, Reply
from gpu_training.core.errors import ClusterError, ClusterRejected
from gpu_training.core.events import JobReference
from gpu_training.core.pods import extra_grace

JOB_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
"""Label by which the Job controller marks its pods; never a name, which the next Job may bear, too."""

STRICT: Final = {"fieldValidation": "Strict"}
"""Query that has the API server refuse a field that it does not know."""
_PAGE: Final = "500"


def reference_of(document: Mapping[str, Any]) -> JobReference:
    metadata = document["metadata"]
    return JobReference(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])


def number_of(name: str) -> int:
    """Give the Job's number in its lineage; 0 when the name has none."""
    tail = name.rpartition("-")[2]
    return int(tail) if tail.isascii() and tail.isdigit() else 0


def jobs_path(namespace: str, name: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{quote(namespace)}/jobs" + (f"/{quote(name)}" if name else "")


def pods_path(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{quote(namespace)}/pods" + (f"/{quote(name)}" if name else "")


async def list_pages(
    cluster: Cluster, path: str, *, doing: str, query: Mapping[str, str], tries: int = TRIES
) -> AsyncIterator[Document]:
    """Give a list page by page, each with its `items` and `metadata`."""
    page = {"limit": _PAGE, **query}
    while True:
        document = (await cluster.request("GET", path, doing=doing, query=page, tries=tries)).document
        yield document
        following = document.get("metadata", {}).get("continue")
        if not following:
            return
        page["continue"] = following


async def list_jobs(
    cluster: Cluster, namespace: str, labels: Mapping[str, str], *, tries: int = TRIES
) -> list[Document]:
    """Give the Jobs that bear all of these labels."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    pages = list_pages(
        cluster,
        jobs_path(namespace),
        doing=f"list Jobs in namespace {namespace!r}",
        query={"labelSelector": selector},
        tries=tries,
    )
    return [item async for page in pages for item in page["items"]]


async def read_job(cluster: Cluster, namespace: str, name: str, *, tries: int = TRIES) -> Document | None:
    """Give the Job of a name, None when there is none."""
    try:
        reply = await cluster.request(
            "GET", jobs_path(namespace, name), doing=f"read Job {namespace}/{name}", tries=tries
        )
    except ClusterRejected as error:
        if error.status == 404:
            return None
        raise
    return reply.document


async def list_pods(cluster: Cluster, job: JobReference) -> list[Document]:
    """Give the pods of one Job, by its UID."""
    pages = list_pages(
        cluster,
        pods_path(job.namespace),
        doing=f"list the pods of Job {job.namespace}/{job.name}",
        query={"labelSelector": f"{JOB_UID_LABEL}={job.uid}"},
    )
    return [item async for page in pages for item in page["items"]]


async def delete_job(
    cluster: Cluster, job: JobReference, *, resource_version: str | None = None, tries: int = TRIES
) -> bool:
    """Delete a Job and its pods in the foreground; returns when the API server has accepted that.

    :param resource_version: version that the Job must still have.
    :returns: False when the Job is gone, is another one by now, or has changed since `resource_version`.
    """
    preconditions = {"uid": job.uid, **({"resourceVersion": resource_version} if resource_version else {})}
    try:
        await cluster.request(
            "DELETE",
            jobs_path(job.namespace, job.name),
            doing=f"delete Job {job.namespace}/{job.name}",
            body={"propagationPolicy": "Foreground", "preconditions": preconditions},
            tries=tries,
        )
    except ClusterRejected as error:
        if error.status in (404, 409):
            return False
        raise
    return True


async def wait_gone(cluster: Cluster, job: JobReference, *, limit: float) -> bool:
    """Whether the Job and all its pods are gone within a time.

    :param limit: seconds, which allow for Kubernetes' own grace period; a longer one of the pods comes on top.
    """
    began, longest = monotonic(), 0.0
    pause = 0.1
    while True:
        document = await read_job(cluster, job.namespace, job.name)
        is_there = document is not None and document["metadata"]["uid"] == job.uid
        pods = await list_pods(cluster, job)
        if not is_there and not pods:
            return True
        longest = max(longest, extra_grace(pods))
        deadline = began + limit + longest
        if monotonic() >= deadline:
            return False
        await asyncio.sleep(min(pause, max(0.0, deadline - monotonic())))
        pause = min(pause * 1.5, 2.0)


async def check_job(cluster: Cluster, document: Document) -> list[str]:
    """Have the API server check a Job and a pod made from its template, creating neither.

    The pod is what sees quota, LimitRange and Pod Security: a dry run of the Job alone sees none of them.

    :returns: what it warns of, and what could not be checked.
    :raises ClusterRejected: what it refuses.
    """
    metadata, template = document["metadata"], document["spec"]["template"]
    namespace = metadata["namespace"]
    query = {**STRICT, "dryRun": "All"}
    reply = await cluster.request(
        "POST", jobs_path(namespace), doing=f"check Job {namespace}/{metadata['name']}", query=query, body=document
    )
    remarks = list(reply.warnings)
    try:
        reply = await _try_pod(cluster, namespace, metadata["name"], template)
    except ClusterError as error:
        if error.status != 403 or "cannot create resource" not in str(error):
            raise
        remarks.append("quota and Pod Security were not checked: the connection's account may not create pods")
    else:
        remarks += [warning for warning in reply.warnings if warning not in remarks]
    return remarks


async def pod_priority(cluster: Cluster, job: JobReference, template: Document) -> int | None:
    """Give the priority that a pod made from a template would have; None when the account may not try that.

    PriorityClasses are the cluster's, and may not be read from within a namespace; a dry run tells what they mean.
    """
    try:
        reply = await _try_pod(cluster, job.namespace, job.name, template)
    except ClusterRejected:
        return None
    priority = reply.document.get("spec", {}).get("priority", 0)
    return priority if isinstance(priority, int) else None


async def _try_pod(cluster: Cluster, namespace: str, job_name: str, template: Document) -> Reply:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**(template.get("metadata") or {}), "generateName": job_name + "-", "namespace": namespace},
        "spec": template["spec"],
    }
    query = {**STRICT, "dryRun": "All"}
    return await cluster.request(
        "POST", pods_path(namespace), doing=f"check a pod of Job {job_name}", query=query, body=pod
    )
