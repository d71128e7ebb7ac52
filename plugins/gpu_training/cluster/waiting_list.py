"""Joining and leaving the tries that wait on a Job. Every write names the UID and the list that it means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gpu_training.cluster.connection import JSON_PATCH, TRIES, Cluster, Document
from gpu_training.cluster.jobs import delete_job, jobs_path, read_job, reference_of
from gpu_training.core.errors import ClusterRejected, StaleTry
from gpu_training.core.events import JobReference
from gpu_training.core.naming import ANNOTATION_WAITERS, TaskTry
from gpu_training.core.observation import observe_job
from gpu_training.core.waiters import Waiters, joined, later_try, to_text, waiters_of

_TRIES: Final = 20
_PATH: Final = "/metadata/annotations/" + ANNOTATION_WAITERS.replace("~", "~0").replace("/", "~1")

IsAlive = Callable[[TaskTry], Awaitable[bool]]
"""Whether a task instance still waits: asks Airflow."""


def waiters_on(document: Document) -> Waiters | None:
    """Give who waits on a Job; None when its annotation is not one that we wrote."""
    return waiters_of(observe_job(document).annotations.get(ANNOTATION_WAITERS, ""))


def refuse_when_stale(document: Document, waiter: TaskTry) -> None:
    """Refuse a try for which a later one of its task waits already.

    :raises StaleTry: there is one.
    """
    later = later_try(waiters_on(document) or (), waiter)
    if later is not None:
        job = reference_of(document)
        raise StaleTry(
            f"Job {job.namespace}/{job.name}: try {later.try_number} of task {waiter.task_id!r} waits on it, and this "
            f"is try {waiter.try_number}, whose turn is over: it is left alone; if the Job is from a run of the same "
            "id that was deleted, delete the Job and clear the task"
        )


async def join(cluster: Cluster, document: Document, waiter: TaskTry, *, others: Waiters = ()) -> Document | None:
    """Put a try on a live Job's list, in place of earlier tries of its task.

    A list that somebody edited begins anew.

    :param others: who else is to be on it.
    :returns: the Job with its new list; None when it is gone, or is being deleted.
    :raises StaleTry: a later try of the same task is on it; nothing was touched then.
    """
    reference, current = reference_of(document), document
    for _ in range(_TRIES):
        if observe_job(current).deleting:
            return None
        refuse_when_stale(current, waiter)
        wanted: Waiters = waiters_on(current) or ()
        for other in (*others, waiter):
            wanted = joined(wanted, other)
        if wanted == waiters_on(current):
            return current
        written = await _write(cluster, current, wanted, tries=TRIES)
        if written is not None:
            current = written
            continue
        again = await read_job(cluster, reference.namespace, reference.name)
        if again is None or again["metadata"]["uid"] != reference.uid:
            return None
        current = again
    return None


async def leave(
    cluster: Cluster,
    job: JobReference,
    waiter: TaskTry,
    is_alive: IsAlive,
    *,
    before_deletion: Callable[[Document], Awaitable[None]],
    tries: int = TRIES,
) -> bool:
    """Take a try off a Job's list, and delete the Job when it was the last one that lives.

    A Job on whose list this very try is not is left alone, and so is one whose list somebody edited.

    :param before_deletion: called with the Job that is about to be deleted.
    :returns: whether the Job was deleted.
    """
    dead: set[str] = set()
    asked = False
    for _ in range(_TRIES):
        document = await read_job(cluster, job.namespace, job.name, tries=tries)
        if document is None or document["metadata"]["uid"] != job.uid or observe_job(document).deleting:
            return asked  # the answer to our own request may have been lost
        waiters = waiters_on(document)
        if waiters is None or waiter not in waiters:
            return False
        rest = tuple(other for other in waiters if other != waiter and other.to_text() not in dead)
        fallen = [other for other in rest if not await is_alive(other)]
        dead |= {other.to_text() for other in fallen}
        rest = tuple(other for other in rest if other not in fallen)
        if rest:
            if await _write(cluster, document, rest, tries=tries) is not None:
                return False
            continue
        await before_deletion(document)
        asked = True
        if await delete_job(cluster, job, resource_version=document["metadata"]["resourceVersion"], tries=tries):
            return True
    return False


async def _write(cluster: Cluster, document: Document, waiters: Waiters, *, tries: int) -> Document | None:
    """Write the list; None when the Job, or its list, is not what was read."""
    reference = reference_of(document)
    annotations = document["metadata"].get("annotations") or {}
    before = annotations.get(ANNOTATION_WAITERS)
    if not annotations:
        change = [{"op": "add", "path": "/metadata/annotations", "value": {ANNOTATION_WAITERS: to_text(waiters)}}]
    else:
        change = [
            *([{"op": "test", "path": _PATH, "value": before}] if before is not None else []),
            {"op": "add", "path": _PATH, "value": to_text(waiters)},
        ]
    try:
        reply = await cluster.request(
            "PATCH",
            jobs_path(reference.namespace, reference.name),
            doing=f"write who waits on Job {reference.namespace}/{reference.name}",
            body=[{"op": "test", "path": "/metadata/uid", "value": reference.uid}, *change],
            content_type=JSON_PATCH,
            tries=tries,
        )
    except ClusterRejected as error:
        if "Too long" in str(error):
            raise ClusterRejected(
                f"{len(waiters)} task tries can not wait on Job {reference.namespace}/{reference.name} at once, their "
                f"names do not fit into its annotations ({error}); let fewer tasks ask for the same work at a time "
                "(max_active_tis_per_dag, a pool)",
                status=error.status,
            ) from error
        # 404: gone; 409 and 422: not the object, or not the list, that was read.
        if error.status not in (404, 409, 422):
            raise
        return None
    return reply.document
