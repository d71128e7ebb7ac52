"""A try stops waiting: it leaves its Job, and the last one out deletes it and writes that down."""

from __future__ import annotations

import logging
from time import time
from typing import Final

from gpu_training.cluster.connection import TRIES, Cluster, Document
from gpu_training.cluster.jobs import list_jobs, number_of, reference_of
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.cluster.waiting_list import IsAlive, leave, waiters_on
from gpu_training.core.bookkeeping import take_away
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ending, Ledger
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LINEAGE, TaskTry, label_value
from gpu_training.core.observation import observe_job

log: Final = logging.getLogger(__name__)


async def depart(
    cluster: Cluster,
    store: LedgerStore,
    job: JobReference,
    number: int,
    waiter: TaskTry,
    is_alive: IsAlive,
    *,
    tries: int = TRIES,
) -> bool:
    """Take a try off a Job's list; the last one out deletes the Job.

    :returns: whether the Job was deleted.
    """
    if not await leave(cluster, job, waiter, is_alive, tries=tries):
        return False
    await write_deletion(store, job, number)
    return True


async def depart_from_all(
    cluster: Cluster, store: LedgerStore, waiter: TaskTry, is_alive: IsAlive, *, tries: int = TRIES
) -> list[Document]:
    """Take a try off every Job of the lineage on whose list it is: also one whose creation was not yet answered.

    :returns: the Jobs that were deleted.
    """
    labels = {LABEL_DEPLOYMENT: label_value(store.lineage.deployment), LABEL_LINEAGE: store.lineage.key}
    deleted = []
    for document in await list_jobs(cluster, store.lineage.namespace, labels, tries=tries):
        job = observe_job(document)
        if job.ended or waiter not in (waiters_on(document) or ()):
            continue
        if await depart(cluster, store, reference_of(document), number_of(job.name), waiter, is_alive, tries=tries):
            deleted.append(document)
    return deleted


async def write_deletion(store: LedgerStore, job: JobReference, number: int) -> None:
    """Write down that we deleted a Job. Where that fails, whoever looks next finds it gone."""
    now = time()

    def write(ledger: Ledger) -> tuple[Ledger, None]:
        record = ledger.job(number)
        if record is None or record.uid not in (None, job.uid):
            return ledger, None
        return ledger.with_job(take_away(record, Ending.DELETED, now=now)), None

    try:
        await store.change(write, now=now)
    except GpuTrainingError as error:
        log.warning("the deletion of Job %s/%s is not in the ledger: %s", job.namespace, job.name, error)
