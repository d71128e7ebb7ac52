"""A try stops waiting: it leaves its Job, and the last one out deletes it and writes that down."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from gpu_training.cluster.connection import TRIES, Cluster, Document
from gpu_training.cluster.jobs import list_jobs, number_of, reference_of
from gpu_training.cluster.ledger_store import LedgerStore, Lineage
from gpu_training.cluster.settlement import note
from gpu_training.cluster.waiting_list import IsAlive, leave, refuse_when_stale, waiters_on
from gpu_training.core.bookkeeping import take_away
from gpu_training.core.decide import Policy
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ending, Ledger
from gpu_training.core.naming import (
    ANNOTATION_FINGERPRINT,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    LABEL_TASK,
    TaskTry,
    label_value,
    task_hash,
)
from gpu_training.core.observation import observe_job
from gpu_training.core.verdict import Verdict
from gpu_training.rule_table import built_in_rules

log: Final = logging.getLogger(__name__)


async def depart(
    cluster: Cluster,
    store: LedgerStore,
    job: JobReference,
    number: int,
    waiter: TaskTry,
    is_alive: IsAlive,
    *,
    policy: Policy | None = None,
    because: Verdict | None = None,
    tries: int = TRIES,
) -> bool:
    """Take a try off a Job's list; the last one out deletes the Job, and writes down before what it has spent and come
    to.

    :param policy: None for the built-in rules.
    :param because: what it means for an attempt that runs that its Job is deleted; None where that is nobody's fault.
    :returns: whether the Job was deleted.
    """

    async def before_deletion(document: Document) -> None:
        try:
            await note(cluster, store, document, number, policy or Policy(rules=built_in_rules()))
        except GpuTrainingError as error:
            log.warning("what Job %s/%s has spent is not in the ledger: %s", job.namespace, job.name, error)

    if not await leave(cluster, job, waiter, is_alive, before_deletion=before_deletion, tries=tries):
        return False
    await write_deletion(store, job, number, because)
    return True


async def depart_from_all(
    cluster: Cluster,
    store: LedgerStore,
    waiter: TaskTry,
    is_alive: IsAlive,
    *,
    policy: Policy | None = None,
    tries: int = TRIES,
) -> list[Document]:
    """Take a try off every Job of the lineage on whose list it is: also one whose creation was not yet answered.

    :param policy: None for the built-in rules.
    :returns: the Jobs that were deleted.
    """
    labels = {LABEL_DEPLOYMENT: label_value(store.lineage.deployment), LABEL_LINEAGE: store.lineage.key}
    deleted = []
    for document in await list_jobs(cluster, store.lineage.namespace, labels, tries=tries):
        job = observe_job(document)
        if job.ended or waiter not in (waiters_on(document) or ()):
            continue
        number, reference = number_of(job.name), reference_of(document)
        if await depart(cluster, store, reference, number, waiter, is_alive, policy=policy, tries=tries):
            deleted.append(document)
    return deleted


async def depart_from_other_work(cluster: Cluster, lineage: Lineage, waiter: TaskTry, is_alive: IsAlive) -> list[str]:
    """Take a task's earlier tries off the Jobs on which they waited for other work: its parameters were changed, and it
    was cleared.

    A first try looks at the Jobs that its own task made only, as one of a run of the same id that was deleted may have:
    a later one also at those that it joined.

    :returns: names of the Jobs that were deleted.
    :raises StaleTry: a later try of the task waits on one of them.
    """
    labels = {LABEL_DEPLOYMENT: label_value(lineage.deployment)}
    if waiter.try_number == 1:
        labels[LABEL_TASK] = task_hash(lineage.deployment, waiter)
    deleted = []
    for document in await list_jobs(cluster, lineage.namespace, labels):
        job = observe_job(document)
        if job.ended or job.deleting or job.labels.get(LABEL_LINEAGE) == lineage.key:
            continue
        refuse_when_stale(document, waiter)
        other = replace(
            lineage,
            fingerprint=job.annotations.get(ANNOTATION_FINGERPRINT, ""),
            key=job.labels.get(LABEL_LINEAGE, ""),
        )
        for earlier in waiters_on(document) or ():
            store = LedgerStore(cluster, other)
            if waiter.same_task(earlier) and await depart(
                cluster, store, reference_of(document), number_of(job.name), earlier, is_alive
            ):
                deleted.append(job.name)
    return deleted


async def write_deletion(store: LedgerStore, job: JobReference, number: int, because: Verdict | None = None) -> None:
    """Write down that we deleted a Job. Where that fails, whoever looks next finds it gone."""
    now = store.now()

    def write(ledger: Ledger) -> tuple[Ledger, None]:
        record = ledger.job(number)
        if record is None or record.uid not in (None, job.uid):
            return ledger, None
        return ledger.with_job(take_away(record, Ending.DELETED, now=now, because=because)), None

    try:
        await store.change(write, now=now)
    except GpuTrainingError as error:
        log.warning("the deletion of Job %s/%s is not in the ledger: %s", job.namespace, job.name, error)
