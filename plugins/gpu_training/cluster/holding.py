"""One step at a time from a request to the Job that a task try waits on: consult the ledger, join, create.

Whatever is decided stands in the ledger before it is done, so that a process that dies in between leaves the next one
all it needs to know.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from gpu_training.cluster.connection import MERGE_PATCH, Cluster, Document
from gpu_training.cluster.jobs import STRICT, delete_job, jobs_path, list_pods, pod_priority, read_job, reference_of
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.cluster.settlement import check_marks, settle, wait_released
from gpu_training.cluster.waiting_list import join, refuse_when_stale, waiters_on
from gpu_training.core.bookkeeping import take_away
from gpu_training.core.consequence import Consequence, Join, Request, Start, follow
from gpu_training.core.decide import Policy
from gpu_training.core.errors import ClusterRejected
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ending, Ledger, LedgerJob
from gpu_training.core.naming import Identity, TaskTry
from gpu_training.core.observation import observe_job
from gpu_training.core.orders import REPLACED, reason_annotation
from gpu_training.core.pods import observe_pod
from gpu_training.core.recovery import KnownTraining, remembered
from gpu_training.core.waiters import Waiters


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A Job that this task try waits on.

    :param document: as the API server gave it.
    :param record: of it in the ledger.
    :param adopted: whether it was there before.
    """

    reference: JobReference
    document: Document
    record: LedgerJob
    adopted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What comes next.

    :param record: of the Job to make, announced in the ledger; None for anything else.
    :param document: of the Job to join.
    """

    consequence: Consequence
    ledger: Ledger
    record: LedgerJob | None = None
    document: Document | None = None


async def consult(
    cluster: Cluster,
    store: LedgerStore,
    identity: Identity,
    request: Request,
    announce: Callable[[Ledger, Start], LedgerJob],
    *,
    policy: Policy,
    memory_cap: str,
    unusable: Collection[int] = (),
    known: KnownTraining | None = None,
) -> Step:
    """Bring the ledger up to date, and write down and give what follows for a request.

    :param announce: gives the record of the Job to make; pure.
    :param unusable: generations whose model does not verify any more.
    :param known: what the model registry knows of the work, for a ledger that begins anew.
    :raises StaleTry: a later try of the same task waits on the Job that lives.
    :raises LedgerConflict: the ledger is not ours, or was edited.
    """
    standing = await settle(cluster, store, identity, policy=policy, memory_cap=memory_cap)
    if standing.document is not None:
        refuse_when_stale(standing.document, request.task)
    now = cluster.clock.now()

    def write(ledger: Ledger) -> tuple[Ledger, tuple[Ledger, Consequence]]:
        ledger = ledger if known is None else remembered(ledger, known, now)
        after, consequence = follow(ledger, request, now, unusable=unusable)
        if isinstance(consequence, Start):
            record = announce(after, consequence)
            after = replace(after.with_job(record), next_number=max(after.next_number, record.number + 1))
        return after, (after, consequence)

    ledger, consequence = await store.change(write, now=now)
    record = ledger.job(consequence.number) if isinstance(consequence, Start) else None
    document = standing.document if isinstance(consequence, Join) else None
    if isinstance(consequence, Start):
        await wait_released(cluster, store, ledger)
    return Step(consequence=consequence, ledger=ledger, record=record, document=document)


async def join_job(
    cluster: Cluster, store: LedgerStore, job: LedgerJob, waiter: TaskTry, *, others: Waiters = ()
) -> HeldJob | None:
    """Put a try on the list of the Job that lives; None when it is gone by now."""
    document = await read_job(cluster, store.lineage.namespace, job.name)
    if document is None or document["metadata"]["uid"] != job.uid:
        return None
    joined = await join(cluster, document, waiter, others=others)
    if joined is None:
        return None
    return HeldJob(reference=reference_of(joined), document=joined, record=job, adopted=True)


async def replace_if_idle(
    cluster: Cluster, store: LedgerStore, job: LedgerJob, document: Document, priority_class: str | None
) -> Waiters | None:
    """Delete a Job whose priority is lower than a waiter's to be, if none of its pods has started: what waits for a
    node would wait on at the lower priority.

    :param priority_class: the waiter's.
    :returns: who waited on it; None when it stays.
    """
    template = document["spec"]["template"]
    if priority_class is None or template["spec"].get("priorityClassName") == priority_class:
        return None
    reference = reference_of(document)
    pods = [observe_pod(pod) for pod in await list_pods(cluster, reference)]
    if any(pod.node or pod.ended for pod in pods):
        return None
    wanted = {**template, "spec": {**template["spec"], "priorityClassName": priority_class}}
    wanted["spec"].pop("priority", None)
    mine, its = await pod_priority(cluster, reference, wanted), await pod_priority(cluster, reference, template)
    if mine is None or its is None or mine <= its:
        return None
    version = await _said_to_be_replaced(cluster, reference, document["metadata"]["resourceVersion"])
    if version is None or not await delete_job(cluster, reference, resource_version=version):
        return None
    now = cluster.clock.now()

    def write(ledger: Ledger) -> tuple[Ledger, None]:
        return ledger.with_job(take_away(ledger.job(job.number) or job, Ending.REPLACED, now=now)), None

    await store.change(write, now=now)
    return waiters_on(document) or ()


async def _said_to_be_replaced(cluster: Cluster, job: JobReference, version: str) -> str | None:
    """Write on a Job that it is replaced, so that its waiters know it however they see it go.

    :returns: its new version; None when it has changed meanwhile.
    """
    metadata = {"uid": job.uid, "resourceVersion": version, "annotations": reason_annotation(REPLACED)}
    try:
        reply = await cluster.request(
            "PATCH",
            jobs_path(job.namespace, job.name),
            doing=f"replace Job {job.namespace}/{job.name}",
            body={"metadata": metadata},
            content_type=MERGE_PATCH,
        )
    except ClusterRejected as error:
        if error.status in (404, 409, 422):
            return None
        raise
    return str(reply.document["metadata"]["resourceVersion"])


async def create(
    cluster: Cluster, store: LedgerStore, identity: Identity, record: LedgerJob, document: Document
) -> HeldJob | None:
    """Make the Job that was announced, or take the one that whoever announced it has made; None when the ledger has to
    be consulted again.

    :raises JobNameConflict: an object that is not ours stands under the name; it is not touched.
    :raises ClusterRejected: the document, quota or permissions.
    """
    namespace, adopted = store.lineage.namespace, False
    try:
        reply = await cluster.request(
            "POST", jobs_path(namespace), doing=f"create Job {namespace}/{record.name}", query=STRICT, body=document
        )
        made = reply.document
    except ClusterRejected as error:
        if error.status != 409:
            raise
        standing = await _standing_under(cluster, store, identity, record)
        if standing is None:
            return None
        made, adopted = standing, True
    seen = observe_job(made)
    created = seen.created_at if seen.created_at is not None else record.created_at
    known = replace(record, uid=seen.uid, created_at=created, seen_until=created)

    def write(ledger: Ledger) -> tuple[Ledger, LedgerJob | None]:
        before, lives = ledger.job(record.number), ledger.open_job
        if before is not None and before.uid is not None:
            return ledger, before if before.uid == seen.uid and before.ended_at is None else None
        if before is None or before.ended_at is not None or (lives is not None and lives.number != record.number):
            return ledger, None
        return ledger.with_job(known), known

    written = await store.change(write, now=cluster.clock.now())
    if written is None:
        if not adopted:
            # Others had made, and ended, the Job of this number while this one was on its way.
            await delete_job(cluster, reference_of(made))
        return None
    joined = await join(cluster, made, identity.owner) if adopted else made
    if joined is None:
        return None
    return HeldJob(reference=reference_of(joined), document=joined, record=written, adopted=adopted)


async def _standing_under(
    cluster: Cluster, store: LedgerStore, identity: Identity, record: LedgerJob
) -> Document | None:
    """Give the Job under a name that is taken, if it is the one that was announced; None when it is over."""
    namespace = store.lineage.namespace
    document = await read_job(cluster, namespace, record.name)
    if document is None:
        return None
    check_marks(document, identity)
    job = observe_job(document)
    if not job.deleting:
        return document
    now = cluster.clock.now()

    def write(ledger: Ledger) -> tuple[Ledger, None]:
        found = replace(ledger.job(record.number) or record, uid=job.uid)
        return ledger.with_job(take_away(found, Ending.LOST, now=now)), None

    await store.change(write, now=now)
    return None
