"""Bringing a lineage's ledger up to what the cluster shows, before anybody acts on it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.jobs import list_jobs, list_pods, number_of, read_job, reference_of
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.core.attempts import attempts_of
from gpu_training.core.bookkeeping import book, close, take_away
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.errors import ClusterUnavailable, JobNameConflict
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ending, Ledger, LedgerJob, Trained
from gpu_training.core.naming import (
    ANNOTATION_GENERATION,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    Identity,
    identity_labels,
    is_ours,
)
from gpu_training.core.observation import JobObservation, Observation, image_of, observe, observe_job
from gpu_training.core.pods import extra_grace, observe_pod
from gpu_training.core.recovery import recovered
from gpu_training.core.training_container import mlflow_run_of

_DIGITS: Final = 10
_PATIENCE_S: Final = 60.0
"""Twice a pod's default grace period."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the lineage stands.

    :param document: of the open Job, which lives; None when there is none.
    """

    ledger: Ledger
    document: Document | None


async def settle(
    cluster: Cluster, store: LedgerStore, identity: Identity, *, policy: Policy, memory_cap: str
) -> Standing:
    """Give the ledger in which every Job that ended is written down as ended, and the one that lives.

    :param identity: of the work; generation and number do not matter.
    :raises JobNameConflict: the Job that the ledger knows does not bear our marks any more: somebody edited it.
    :raises LedgerConflict: the ledger is not ours, or was edited.
    """
    ledger = await store.read()
    if not ledger.updated_at:
        await _recover(cluster, store, identity)
        ledger = store.seen or ledger
    job = ledger.open_job
    if job is None:
        return Standing(ledger=ledger, document=None)
    document = await read_job(cluster, store.lineage.namespace, job.name)
    if document is not None and (job.uid is None or document["metadata"]["uid"] == job.uid):
        check_marks(document, replace(identity, generation=job.generation, number=job.number))
    elif job.uid is None:
        return Standing(ledger=ledger, document=None)  # planned, and never made
    else:
        document = None
    now = cluster.clock.now()
    observation = None if document is None else observe(document, await list_pods(cluster, reference_of(document)))

    def write(newest: Ledger) -> tuple[Ledger, bool]:
        before = newest.job(job.number)
        if before is None or before.ended_at is not None:
            return newest, False  # whoever watched has closed it meanwhile, and has seen more
        record, trained, lives = _settled(before, document, observation, policy, memory_cap, now)
        # A record that only got older is not worth a write: whoever watches keeps it.
        if record.ended_at is None and record.uid == before.uid:
            return newest, lives
        newest = newest.with_job(record)
        return (newest.with_trained(trained) if trained is not None else newest), lives

    lives = await store.change(write, now=now)
    return Standing(ledger=store.seen or ledger, document=document if lives else None)


def _settled(
    job: LedgerJob,
    document: Document | None,
    observation: Observation | None,
    policy: Policy,
    memory_cap: str,
    now: float,
) -> tuple[LedgerJob, Trained | None, bool]:
    """Give the Job's record as it is now, what it came to, and whether it lives."""
    if document is None or observation is None:
        gone = Observation(job=JobObservation(uid=job.uid or "", name=job.name, namespace=""), gone=True)
        return take_away(book(job, gone, (), now=now, watched_since=now), Ending.LOST, now=now), None, False
    known = _known(job, document)
    booked = book(known, observation, attempts_of(observation, now, policy.rules), now=now, watched_since=now)
    decision = decide(observation, policy, now)
    if isinstance(decision, Outcome):
        closed = close(booked, decision, now=now, memory_cap=memory_cap)
        run, image = mlflow_run_of(document), image_of(observation)
        return closed, trained_by(closed, reference_of(document), decision, run, image, now), False
    if observe_job(document).deleting:
        return take_away(booked, Ending.LOST, now=now), None, False
    return booked, None, True


def _known(job: LedgerJob, document: Document) -> LedgerJob:
    """Give the record with the UID of the Job, where whoever made it has not come so far."""
    if job.uid is not None:
        return job
    seen = observe_job(document)
    created = seen.created_at if seen.created_at is not None else job.created_at
    return replace(job, uid=seen.uid, created_at=created, seen_until=created)


async def note(cluster: Cluster, store: LedgerStore, document: Document, number: int, policy: Policy) -> None:
    """Write down what is seen of a Job that is about to be deleted: nobody can see it later.

    One whose pods have all done their work has succeeded, though it does not say so yet.
    """
    now = cluster.clock.now()
    observation = observe(document, await list_pods(cluster, reference_of(document)))
    final = replace(observation, gone=True)
    decision = decide(final, policy, now)

    def write(newest: Ledger) -> tuple[Ledger, None]:
        before = newest.job(number)
        uid = document["metadata"]["uid"]
        if before is None or before.ended_at is not None or before.uid not in (None, uid):
            return newest, None
        attempts = attempts_of(observation, now, policy.rules)
        record = book(_known(before, document), observation, attempts, now=now, watched_since=now)
        if not isinstance(decision, Outcome) or decision.kind is not OutcomeKind.SUCCEEDED:
            return newest.with_job(record), None
        record = close(record, decision, now=now, memory_cap="")
        run, image = mlflow_run_of(document), image_of(observation)
        trained = trained_by(record, reference_of(document), decision, run, image, now)
        newest = newest.with_job(record)
        return (newest.with_trained(trained) if trained is not None else newest), None

    await store.change(write, now=now)


def trained_by(
    job: LedgerJob, reference: JobReference, outcome: Outcome, mlflow_run_id: str, image: str, now: float
) -> Trained | None:
    """Give what a Job that ended well came to; None for any other end."""
    if outcome.kind is not OutcomeKind.SUCCEEDED:
        return None
    return Trained(
        generation=job.generation,
        number=job.number,
        job=reference.name,
        job_uid=reference.uid,
        mlflow_run_id=mlflow_run_id,
        image=image,
        at=now,
        result=outcome.result,
    )


def check_marks(document: Document, identity: Identity) -> None:
    """Refuse a Job under our name that is not ours.

    :raises JobNameConflict: it does not bear our marks.
    """
    job = observe_job(document)
    if not is_ours(identity, job.labels, job.annotations):
        raise JobNameConflict(
            f"Job {job.namespace}/{job.name} exists and is not ours, or somebody edited its marks (created "
            f"{document['metadata'].get('creationTimestamp')}, labels {dict(job.labels)}): it is left alone; "
            "delete it, or choose another namespace",
            status=409,
        )


async def _recover(cluster: Cluster, store: LedgerStore, identity: Identity) -> None:
    """Write a ledger that knows the Jobs that bear the lineage's marks, where somebody deleted the one that did.

    Numbers go on behind them, so that no name is used twice; what they spent is not known any more.
    """
    labels = identity_labels(identity)
    lineage = {key: labels[key] for key in (LABEL_DEPLOYMENT, LABEL_LINEAGE)}
    jobs = await list_jobs(cluster, store.lineage.namespace, lineage)
    found = [(document, number_of(document["metadata"]["name"]), _generation(document)) for document in jobs]
    known = [
        (document, number, generation)
        for document, number, generation in found
        if number and generation and _is_ours(document, identity, number, generation)
    ]
    if not known:
        return
    now = cluster.clock.now()
    living = [(d, n, g) for d, n, g in known if not observe_job(d).ended and not observe_job(d).deleting]
    living.sort(key=lambda each: each[1])
    records = tuple(recovered(d, number=n, generation=g, now=now) for d, n, g in living[-1:])

    def take(newest: Ledger) -> tuple[Ledger, None]:
        if newest.updated_at:
            return newest, None
        number = max(number for _, number, _ in known)
        generation = max(generation for _, _, generation in known)
        return replace(newest, next_number=number + 1, generation=generation, jobs=records), None

    await store.change(take, now=now)


def _generation(document: Document) -> int:
    text = observe_job(document).annotations.get(ANNOTATION_GENERATION, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else 0


def _is_ours(document: Document, identity: Identity, number: int, generation: int) -> bool:
    job = observe_job(document)
    return is_ours(replace(identity, generation=generation, number=number), job.labels, job.annotations)


async def wait_released(cluster: Cluster, store: LedgerStore, ledger: Ledger) -> None:
    """Return when no pod of a Job that was taken away holds a GPU any more: two trainings of a lineage never run at
    once.

    :raises ClusterUnavailable: one still does after a minute, or twice its grace period where that is longer.
    """
    taken = [job for job in ledger.jobs if job.ending in (Ending.DELETED, Ending.REPLACED, Ending.LOST) and job.uid]
    began = monotonic()
    for job in taken[-1:]:
        reference = JobReference(namespace=store.lineage.namespace, name=job.name, uid=job.uid or "")
        pause = 0.1
        while holding := [
            (pod, each)
            for each in await list_pods(cluster, reference)
            if not (pod := observe_pod(each)).ended and pod.node
        ]:
            patience = _PATIENCE_S + 2 * extra_grace(each for _, each in holding)
            if monotonic() >= began + patience:
                pod, _ = holding[0]
                raise ClusterUnavailable(
                    f"pod {pod.name} of Job {job.name} still holds GPUs on {pod.node}, {patience:g} s "
                    "after its Job was deleted: nothing is trained beside it; look at the node and the pod's finalizers"
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, 2.0)
