"""Which Job a task try waits on: its own that is live, else a new one under the next free number.

Reads first; touches only what bears our marks. Adopted is a Job of the same task instance and the same work that is
live and not being deleted. Every write names the UID it means, so that an object of the same name made meanwhile is
safe.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_training.cluster.connection import JSON_PATCH, Cluster, Document
from gpu_training.cluster.jobs import (
    STRICT,
    delete_job,
    jobs_path,
    list_jobs,
    list_pods,
    number_of,
    read_job,
    reference_of,
)
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.errors import ClusterRejected, JobNameConflict, StaleTry
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
)
from gpu_training.core.observation import observe, observe_job

log = logging.getLogger(__name__)

_OWNER_PATH: Final = "/metadata/annotations/" + ANNOTATION_OWNER.replace("~", "~0").replace("/", "~1")
_NAMES_TRIED: Final = 20
_MARK_TRIES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A Job that this task try waits on.

    :param document: as the API server gave it.
    :param adopted: whether an earlier try had made it.
    """

    reference: JobReference
    document: Mapping[str, Any]
    adopted: bool


async def adopt(
    cluster: Cluster, namespace: str, identity: Identity, *, policy: Policy, take_ended: bool = False
) -> HeldJob | None:
    """Give this task instance's own Job for this work, if one is live, now marked as waited on by `identity.owner`.

    A live Job of the same task instance for other work (its parameters were changed, then it was cleared) has no one
    left who waits on it and is deleted.

    :param identity: its number does not matter.
    :param policy: what an end well is.
    :param take_ended: whether one that ended well counts, too: for a retry after a crash between end and report. One
        that this very try waited on always does.
    :raises ClusterError: the API server could not be asked, or forbids it.
    :raises StaleTry: a later try waits on a Job that is live; nothing was touched then.
    """
    labels = identity_labels(identity)
    wanted = {key: labels[key] for key in (LABEL_DEPLOYMENT, LABEL_TASK)}
    found = sorted(await list_jobs(cluster, namespace, wanted), key=lambda job: number_of(job["metadata"]["name"]))
    for document in found:
        job = observe_job(document)
        if not job.ended and not job.deleting:
            _refuse_when_stale(document, identity.owner)
    held: HeldJob | None = None
    for document in reversed(found):
        job = observe_job(document)
        owner = TaskTry.from_text(job.annotations.get(ANNOTATION_OWNER, ""))
        if job.deleting or not identity.owner.same_task(owner):
            continue
        same_work = is_ours(identity, job.labels, job.annotations)
        # A clear begins another try: what this very try waited on is its own, also when its worker went away meanwhile.
        counts = take_ended or owner == identity.owner
        if held is None and same_work and (not job.ended or (counts and await _ended_well(cluster, document, policy))):
            held = await _take(cluster, document, identity.owner)
        elif not job.ended:
            log.warning("Deleting Job %s: it was made by an earlier try, and nobody waits on it any more", job.name)
            await delete_job(cluster, reference_of(document))
    return held


def _refuse_when_stale(document: Document, owner: TaskTry) -> None:
    marked = TaskTry.from_text(observe_job(document).annotations.get(ANNOTATION_OWNER, ""))
    if marked is not None and owner.same_task(marked) and marked.try_number > owner.try_number:
        job = reference_of(document)
        raise StaleTry(
            f"Job {job.namespace}/{job.name}: try {marked.try_number} of task {owner.task_id!r} waits on it, and this "
            f"is try {owner.try_number}, whose turn is over: it is left alone; if the Job is from a run of the same id "
            "that was deleted, delete the Job and clear the task"
        )


async def _ended_well(cluster: Cluster, document: Document, policy: Policy) -> bool:
    decision = decide(observe(document, await list_pods(cluster, reference_of(document))), policy, 0.0)
    return isinstance(decision, Outcome) and decision.kind is OutcomeKind.SUCCEEDED


async def _take(cluster: Cluster, document: Document, owner: TaskTry) -> HeldJob | None:
    """Write the owner's mark; None when the Job is gone, is being deleted, or is another task's by now.

    :raises StaleTry: it is a later try's.
    """
    reference, current = reference_of(document), document
    for _ in range(_MARK_TRIES):
        _refuse_when_stale(current, owner)
        try:
            marked = await _mark(cluster, reference, current["metadata"]["annotations"][ANNOTATION_OWNER], owner)
        except ClusterRejected as error:
            # 404: gone; 409 and 422: not the object, or not the mark, that was read.
            if error.status not in (404, 409, 422):
                raise
        else:
            return None if observe_job(marked).deleting else HeldJob(reference=reference, document=marked, adopted=True)
        again = await read_job(cluster, reference.namespace, reference.name)
        if again is None or again["metadata"]["uid"] != reference.uid:
            return None
        if not owner.same_task(TaskTry.from_text(observe_job(again).annotations.get(ANNOTATION_OWNER, ""))):
            return None
        current = again
    return None


async def _mark(cluster: Cluster, reference: JobReference, before: str, owner: TaskTry) -> Document:
    patch = [
        {"op": "test", "path": "/metadata/uid", "value": reference.uid},
        {"op": "test", "path": _OWNER_PATH, "value": before},
        {"op": "replace", "path": _OWNER_PATH, "value": owner.to_text()},
    ]
    reply = await cluster.request(
        "PATCH",
        jobs_path(reference.namespace, reference.name),
        doing=f"mark Job {reference.namespace}/{reference.name} as waited on",
        body=patch,
        content_type=JSON_PATCH,
    )
    return reply.document


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
                query=STRICT,
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
