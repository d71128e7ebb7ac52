"""Jobs: create or adopt, delete, check by a dry run. Reads first; touches only what bears our marks.

Adopted is a Job of the same task instance and the same work that is live and not being deleted. Every write names the
UID it means, so that an object of the same name made meanwhile is safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from gpu_training.cluster.connection import JSON_PATCH, TRIES, Cluster, Document
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.errors import ClusterError, ClusterRejected, JobNameConflict
from gpu_training.core.events import JobReference
from gpu_training.core.naming import (
    ANNOTATION_OWNER,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    LABEL_TASK,
    Identity,
    TaskTry,
    identity_labels,
    is_ours,
    job_name,
    label_value,
    task_hash,
)
from gpu_training.core.observation import observe, observe_job

log = logging.getLogger(__name__)

JOB_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
"""Label by which the Job controller marks its pods; never a name, which the next Job may bear, too."""

_STRICT: Final = {"fieldValidation": "Strict"}
_OWNER_PATH: Final = "/metadata/annotations/" + ANNOTATION_OWNER.replace("~", "~0").replace("/", "~1")
_NAMES_TRIED: Final = 20
_PAGE: Final = "500"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A Job that this task try waits on.

    :param document: as the API server gave it.
    :param adopted: whether an earlier try had made it.
    """

    reference: JobReference
    document: Mapping[str, Any]
    adopted: bool

    @property
    def number(self) -> int:
        return number_of(self.reference.name)


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


async def adopt(cluster: Cluster, namespace: str, identity: Identity, *, take_ended: bool = False) -> HeldJob | None:
    """Give this task instance's own Job for this work, if one is live, now marked as waited on by `identity.owner`.

    A live Job of the same task instance for other work (its parameters were changed, then it was cleared) has no one
    left who waits on it and is deleted.

    :param identity: its number does not matter.
    :param take_ended: whether one that ended well counts, too: for a retry after a crash between end and report.
    :raises ClusterError: the API server could not be asked, or forbids it.
    """
    labels = identity_labels(identity)
    wanted = {key: labels[key] for key in (LABEL_DEPLOYMENT, LABEL_TASK)}
    found = sorted(await list_jobs(cluster, namespace, wanted), key=lambda job: number_of(job["metadata"]["name"]))
    held: HeldJob | None = None
    for document in reversed(found):
        job = observe_job(document)
        if not identity.owner.same_task(TaskTry.from_text(job.annotations.get(ANNOTATION_OWNER, ""))):
            continue
        same_work = is_ours(identity, job.labels, job.annotations)
        if held is None and same_work and (not job.ended or (take_ended and await _ended_well(cluster, document))):
            held = await _take(cluster, document, identity.owner)
        elif not job.ended and not job.deleting:
            log.warning("Deleting Job %s: it was made by an earlier try, and nobody waits on it any more", job.name)
            await delete_job(cluster, reference_of(document))
    return held


async def _ended_well(cluster: Cluster, document: Document) -> bool:
    decision = decide(observe(document, await list_pods(cluster, reference_of(document))), Policy(), 0.0)
    return isinstance(decision, Outcome) and decision.kind is OutcomeKind.SUCCEEDED


async def _take(cluster: Cluster, document: Document, owner: TaskTry) -> HeldJob | None:
    """Write the owner's mark; None when the Job is being deleted, or another wrote at the same time."""
    reference = reference_of(document)
    before = document["metadata"]["annotations"][ANNOTATION_OWNER]
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": reference.uid},
        {"op": "test", "path": _OWNER_PATH, "value": before},
        {"op": "replace", "path": _OWNER_PATH, "value": owner.to_text()},
    ]
    try:
        reply = await cluster.request(
            "PATCH",
            jobs_path(reference.namespace, reference.name),
            doing=f"mark Job {reference.namespace}/{reference.name} as waited on",
            body=patch,
            content_type=JSON_PATCH,
        )
    except ClusterRejected as error:
        # 404: gone; 409 and 422: not the object, or not the mark, that was read.
        if error.status not in (404, 409, 422):
            raise
        current = await read_job(cluster, reference.namespace, reference.name)
        if current is None or current["metadata"]["uid"] != reference.uid:
            return None
        if observe_job(current).annotations.get(ANNOTATION_OWNER) != owner.to_text():
            return None
        document = current  # an answer was lost on the way and the patch repeated
    else:
        document = reply.document
    if observe_job(document).deleting:
        return None
    return HeldJob(reference=reference, document=document, adopted=True)


async def next_number(cluster: Cluster, namespace: str, identity: Identity) -> int:
    """Give the number behind all Jobs of the lineage that are there; other runs' count, too."""
    labels = identity_labels(identity)
    lineage = {key: labels[key] for key in (LABEL_DEPLOYMENT, LABEL_LINEAGE)}
    numbers = [number_of(job["metadata"]["name"]) for job in await list_jobs(cluster, namespace, lineage)]
    return max([identity.number - 1, *numbers]) + 1


async def create(
    cluster: Cluster, namespace: str, identity: Identity, build: Callable[[Identity], Document]
) -> HeldJob:
    """Give a new Job of the lineage, numbered behind all that are there.

    Safe to repeat: when an answer was lost on the way, the Job that was made is found by its name and taken.

    :param build: gives the document for the identity with its number.
    :raises JobNameConflict: an object that does not bear our marks stands under the name.
    :raises ClusterRejected: the document, quota or permissions.
    """
    first = await next_number(cluster, namespace, identity)
    for number in range(first, first + _NAMES_TRIED):
        numbered = replace(identity, number=number)
        document = build(numbered)
        name = document["metadata"]["name"]
        try:
            reply = await cluster.request(
                "POST",
                jobs_path(namespace),
                doing=f"create Job {namespace}/{name}",
                query=_STRICT,
                body=document,
            )
        except ClusterRejected as error:
            if error.status != 409:
                raise
            held = await _standing_under(cluster, namespace, name, numbered)
            if held is not None:
                return held
            continue
        return HeldJob(reference=reference_of(reply.document), document=reply.document, adopted=False)
    raise JobNameConflict(
        f"Job names {job_name(replace(identity, number=first))!r} to number {first + _NAMES_TRIED - 1} are all taken "
        f"in namespace {namespace!r}: delete ended Jobs, or lower ttl_seconds_after_finished"
    )


async def _standing_under(cluster: Cluster, namespace: str, name: str, identity: Identity) -> HeldJob | None:
    """Give the Job under a name that is taken if it may be adopted; None when the next number has to be used."""
    document = await read_job(cluster, namespace, name)
    if document is None:
        return None
    job = observe_job(document)
    labels = identity_labels(identity)
    if any(job.labels.get(key) != labels[key] for key in (LABEL_DEPLOYMENT, LABEL_LINEAGE)):
        raise JobNameConflict(
            f"Job {namespace}/{name} exists and is not ours (created {document['metadata'].get('creationTimestamp')}, "
            f"labels {dict(job.labels)}): it is left alone; delete or rename it, or choose another namespace",
            status=409,
        )
    if job.deleting or job.ended or not is_ours(identity, job.labels, job.annotations):
        return None
    return await _take(cluster, document, identity.owner)


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

    :param limit: seconds; a pod has its grace period to end.
    """
    deadline = monotonic() + limit
    pause = 0.1
    while True:
        document = await read_job(cluster, job.namespace, job.name)
        if (document is None or document["metadata"]["uid"] != job.uid) and not await list_pods(cluster, job):
            return True
        if monotonic() >= deadline:
            return False
        await asyncio.sleep(min(pause, max(0.0, deadline - monotonic())))
        pause = min(pause * 1.5, 2.0)


async def delete_if_owned(cluster: Cluster, job: JobReference, owner: TaskTry, *, tries: int = TRIES) -> bool:
    """Delete the Job if it is still the one that this very try waits on; another try's Job is left alone.

    :returns: whether it was deleted.
    """
    for _ in range(_NAMES_TRIED):
        document = await read_job(cluster, job.namespace, job.name, tries=tries)
        if document is None or document["metadata"]["uid"] != job.uid:
            return False
        observed = observe_job(document)
        if observed.deleting or TaskTry.from_text(observed.annotations.get(ANNOTATION_OWNER, "")) != owner:
            return False
        version = document["metadata"]["resourceVersion"]
        if await delete_job(cluster, job, resource_version=version, tries=tries):
            return True
    return False


async def delete_owned(
    cluster: Cluster, namespace: str, deployment: str, owner: TaskTry, *, tries: int
) -> list[Document]:
    """Delete what this very try waits on, found by its marks: also a Job whose creation was not yet answered.

    :returns: the Jobs that were deleted.
    """
    labels = {LABEL_DEPLOYMENT: label_value(deployment), LABEL_TASK: task_hash(deployment, owner)}
    deleted = []
    for document in await list_jobs(cluster, namespace, labels, tries=tries):
        reference = reference_of(document)
        if not observe_job(document).ended and await delete_if_owned(cluster, reference, owner, tries=tries):
            deleted.append(document)
    return deleted


async def check_job(cluster: Cluster, document: Document) -> list[str]:
    """Have the API server check a Job and a pod made from its template, creating neither.

    The pod is what sees quota, LimitRange and Pod Security: a dry run of the Job alone sees none of them.

    :returns: what it warns of, and what could not be checked.
    :raises ClusterRejected: what it refuses.
    """
    metadata, template = document["metadata"], document["spec"]["template"]
    namespace = metadata["namespace"]
    query = {**_STRICT, "dryRun": "All"}
    reply = await cluster.request(
        "POST", jobs_path(namespace), doing=f"check Job {namespace}/{metadata['name']}", query=query, body=document
    )
    remarks = list(reply.warnings)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "generateName": metadata["name"] + "-", "namespace": namespace},
        "spec": template["spec"],
    }
    try:
        reply = await cluster.request(
            "POST", pods_path(namespace), doing=f"check a pod of Job {metadata['name']}", query=query, body=pod
        )
    except ClusterError as error:
        if error.status != 403 or "cannot create resource" not in str(error):
            raise
        remarks.append("quota and Pod Security were not checked: the connection's account may not create pods")
    else:
        remarks += [warning for warning in reply.warnings if warning not in remarks]
    return remarks
