"""What a task tells the lineage's ledger when it has its result, and asks it before it gives a run up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_training.core.consequence import delivered
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import TrainingEvent
from gpu_training.core.naming import TaskTry
from gpu_training.operators.deployment import deployment_id
from gpu_training.operators.submission import run_to_end
from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster, ClusterAddress
    from gpu_training.cluster.ledger_store import LedgerStore

_TRIES = 2


def deliver(address: ClusterAddress, event: TrainingEvent, owner: TaskTry, log: TaskLog) -> None:
    """Write down that a task has its result: who clears it from now on wants it trained again. A fault is a warning;
    a clear then gives the same result first."""
    from gpu_training.cluster.connection import Cluster

    async def write() -> None:
        async with Cluster(address) as cluster:
            store = _store(cluster, event)
            await store.read()
            await store.change(lambda ledger: (delivered(ledger, owner), None), now=store.now())

    try:
        run_to_end(write())
    except GpuTrainingError as error:
        log.warning("The ledger does not know that this task has its result: %s", error)


def is_trained_by_others(address: ClusterAddress, event: TrainingEvent) -> bool:
    """Whether another Job of the lineage is there by now, whose MLflow run is the same; without an answer, not."""
    from gpu_training.cluster.connection import Cluster

    async def ask() -> bool:
        async with Cluster(address) as cluster:
            ledger = await _store(cluster, event).read()
            job = ledger.open_job
            return job is not None and job.uid is not None and job.uid != event.job.uid

    try:
        return run_to_end(ask())
    except GpuTrainingError:
        return False


def _store(cluster: Cluster, event: TrainingEvent) -> LedgerStore:
    from gpu_training.cluster.ledger_store import LedgerStore, Lineage

    lineage = Lineage.of_work(event.work, namespace=event.job.namespace, deployment=deployment_id())
    return LedgerStore(cluster, lineage, tries=_TRIES)
