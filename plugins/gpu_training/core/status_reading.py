"""What was read of a namespace -> the status of every training in it.

Total, as :mod:`gpu_training.core.observation` is. One training is one lineage: its newest Job speaks for it, and its
ledger for what is gone. What could not be read is never guessed at: it is `hidden`, or the phase is `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gpu_training.core.attempts import Attempt, attempts_of, total_gpu_seconds
from gpu_training.core.bookkeeping import book
from gpu_training.core.clock_readings import read_clocks
from gpu_training.core.clocks import Clock, clocks_of
from gpu_training.core.decide import Outcome, Policy, decide
from gpu_training.core.documents import Document, child, text, texts
from gpu_training.core.ledger import Ending, Ledger, LedgerJob, attempts_in
from gpu_training.core.ledger_document import LedgerDamaged, from_text
from gpu_training.core.naming import (
    ANNOTATION_CLOCKS,
    ANNOTATION_DATA_VERSION,
    ANNOTATION_GENERATION,
    ANNOTATION_WAITERS,
    LABEL_DEPLOYMENT,
    LABEL_LINEAGE,
    LABEL_MODEL,
    LEDGER_KEY,
)
from gpu_training.core.observation import JobObservation, Observation, observe, observe_job
from gpu_training.core.phase import Phase, Wait
from gpu_training.core.phase_start import phase_since
from gpu_training.core.pods import observe_pod
from gpu_training.core.status import PLANNED, UNKNOWN, Listing, Overview, TrainingStatus, in_order
from gpu_training.core.status_progress import with_written_progress, with_written_steps
from gpu_training.core.verdict import Verdict
from gpu_training.core.waiters import waiters_of

_DIGITS: Final = 10
_JOB_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"

RECENT_S: Final = 24 * 3600.0
"""How long a training is shown whose Job is gone."""


def read_overview(listing: Listing, *, namespace: str, policy: Policy, now: float) -> Overview:
    """Give every training that lives, whose Job is there, or that ended within :data:`RECENT_S`.

    :param now: seconds since 1970.
    """
    ledgers, damaged = _ledgers(listing.ledgers or ())
    newest = {_lineage(document): document for document in sorted(listing.jobs, key=_age)}
    pods = _by_job(listing.pods or ())
    found: list[TrainingStatus | None] = []
    for key, document in newest.items():
        of_job = pods.get(observe_job(document).uid, ())
        seen = with_written_steps(observe(document, of_job))
        status = _of_job(document, seen, ledgers.get(key), policy, now, pods_seen=listing.pods is not None)
        found.append(replace(status, wanting=_wanting(document, of_job)) if status is not None else None)
    found += [_of_ledger(ledger, namespace, now) for key, ledger in ledgers.items() if key not in newest]
    trainings = in_order(with_written_progress(status) for status in found if status is not None)
    models = tuple(sorted({status.model for status in trainings}))
    return Overview(trainings=trainings, at=now, models=models, hidden=(*listing.hidden, *damaged))


def _of_job(
    document: object, seen: Observation, ledger: Ledger | None, policy: Policy, now: float, *, pods_seen: bool
) -> TrainingStatus | None:
    job = seen.job
    if job is None:
        return None
    attempts = attempts_of(seen, now, policy.rules)
    record = _record(ledger, job)
    if ledger is not None and record is not None and record.ended_at is None and pods_seen:
        record = book(record, seen, attempts, now=now, watched_since=0.0)
        ledger = ledger.with_job(record)
    generation = _generation(job)
    spent, names = _known(ledger, generation)
    if ledger is not None and record is not None:
        attempts = attempts_in(ledger, generation)
    else:
        spent += total_gpu_seconds(attempts)
    status = TrainingStatus(
        model=job.labels.get(LABEL_MODEL, ""),
        namespace=job.namespace,
        deployment=ledger.deployment if ledger is not None else job.labels.get(LABEL_DEPLOYMENT, ""),
        job=job.name,
        generation=generation,
        phase=UNKNOWN,
        data_version=job.annotations.get(ANNOTATION_DATA_VERSION, ""),
        attempts=attempts,
        gpu_seconds=round(spent, 3),
        jobs=tuple(dict.fromkeys((*names, job.name))),
        observation=seen,
    )
    decision = decide(seen, policy, now)
    if job.ended or isinstance(decision, Outcome):
        return _over(status, job, record, decision, pods_seen=pods_seen)
    own = record.attempts if record is not None else ()
    return _doing(status, seen, job, decision, own, now, pods_seen=pods_seen)


def _over(
    status: TrainingStatus,
    job: JobObservation,
    record: LedgerJob | None,
    decision: Wait | Outcome,
    *,
    pods_seen: bool,
) -> TrainingStatus:
    """Give the status of one whose Job has ended. Whoever watched the end has seen more than is to be seen now."""
    at = record.ended_at if record is not None else None
    if job.final is not None and job.final.changed_at is not None:
        at = job.final.changed_at
    if record is not None and record.ending is not None:
        return _ended(status, str(record.ending), record.verdict, at)
    if job.condition("Complete") is not None and not pods_seen:
        over = _ended(status, UNKNOWN, None, at)
        return replace(over, detail="the Job is Complete; whether there is a result can not be told without its pods")
    if isinstance(decision, Outcome):
        return _ended(status, str(decision.kind), decision.verdict, at)
    return _ended(status, UNKNOWN, None, at)


def _doing(
    status: TrainingStatus,
    seen: Observation,
    job: JobObservation,
    wait: Wait,
    own: Sequence[Attempt],
    now: float,
    *,
    pods_seen: bool,
) -> TrainingStatus:
    """Give the status of one that has not ended; `own` are the Job's attempts that the ledger knows."""
    written = job.annotations.get(ANNOTATION_WAITERS)
    status = replace(status, waiters=() if written is None else waiters_of(written))
    if not pods_seen and job.active and wait.phase in (Phase.PENDING, Phase.RETRYING):
        words = f"{job.active} of its pods are active, and can not be seen"
        return replace(status, since=job.started_at, detail=words)
    clocks = clocks_of(job.annotations.get(ANNOTATION_CLOCKS, ""))
    readings = read_clocks(seen, wait.phase, clocks, now, attempts=own)
    return replace(
        status,
        phase=str(wait.phase),
        since=phase_since(seen, wait.phase, now, own),
        detail=wait.detail,
        clocks=tuple(reading for reading in readings if reading.clock is not Clock.STALL),
    )


def _known(ledger: Ledger | None, generation: int) -> tuple[float, tuple[str, ...]]:
    """Give the GPU-seconds of a generation and the names of all Jobs, as far as a ledger knows them."""
    jobs = ledger.jobs if ledger is not None else ()
    return sum(job.gpu_seconds for job in jobs if job.generation == generation), tuple(job.name for job in jobs)


def _ended(status: TrainingStatus, phase: str, verdict: Verdict | None, at: float | None) -> TrainingStatus:
    detail = verdict.summary if verdict is not None else ""
    return replace(status, phase=phase, since=at, ended=True, verdict=verdict, detail=detail)


def _of_ledger(ledger: Ledger, namespace: str, now: float) -> TrainingStatus | None:
    """Give a training whose Job is gone, or is not made yet; None for one that is long over."""
    if not ledger.jobs:
        return None
    job = ledger.jobs[-1]
    at = job.ended_at if job.ended_at is not None else max(job.created_at, job.seen_until)
    if at < now - RECENT_S:
        return None
    trained = ledger.trained_in(job.generation)
    result = trained.result if trained is not None else None
    status = TrainingStatus(
        model=ledger.model,
        namespace=namespace,
        deployment=ledger.deployment,
        job=job.name,
        generation=job.generation,
        phase=PLANNED,
        since=at,
        data_version=(result.data_version if result is not None else None) or "",
        attempts=attempts_in(ledger, job.generation),
        gpu_seconds=round(sum(j.gpu_seconds for j in ledger.jobs if j.generation == job.generation), 3),
        jobs=tuple(each.name for each in ledger.jobs),
    )
    if job.ending is not None:
        return _ended(status, str(job.ending), job.verdict, job.ended_at)
    if job.uid is not None:
        lost = replace(status, phase=str(Ending.LOST), ended=True)
        return replace(lost, detail="the Job is gone, and nobody has written down how it ended")
    return replace(status, detail="the ledger announces the Job, and nobody has made it yet")


def _record(ledger: Ledger | None, job: JobObservation) -> LedgerJob | None:
    jobs = ledger.jobs if ledger is not None else ()
    record = next((each for each in reversed(jobs) if each.uid == job.uid), None)
    if record is not None:
        return record
    # It was made a moment ago: its UID is not written down yet.
    unmade = next((each for each in reversed(jobs) if each.uid is None and each.name == job.name), None)
    created = job.created_at
    return replace(unmade, uid=job.uid, created_at=created or unmade.created_at) if unmade is not None else None


def _ledgers(documents: Iterable[object]) -> tuple[dict[tuple[str, str], Ledger], list[str]]:
    """Give the ledgers by lineage, and what is wrong with those that can not be read."""
    ledgers, damaged = {}, []
    for document in documents:
        try:
            ledgers[_lineage(document)] = from_text(text(child(document, "data"), LEDGER_KEY))
        except LedgerDamaged as error:
            name = text(child(document, "metadata"), "name")
            damaged.append(f"ledger {name}: it was edited and can not be read: {error}")
    return ledgers, damaged


def _lineage(document: object) -> tuple[str, str]:
    metadata = child(document, "metadata")
    labels = texts(metadata, "labels")
    return labels.get(LABEL_DEPLOYMENT, ""), labels.get(LABEL_LINEAGE) or text(metadata, "uid")


def _age(document: object) -> tuple[bool, float, str]:
    """Order by age; one that lives is younger than all that have ended."""
    job = observe_job(document)
    return not job.ended, job.created_at or 0.0, job.name


def _by_job(pods: Iterable[object]) -> dict[str, list[object]]:
    """Give the pods by the UID of their Job; those of no Job are left out."""
    found: dict[str, list[object]] = {}
    for document in pods:
        uid = texts(child(document, "metadata"), "labels").get(_JOB_UID_LABEL)
        if uid:
            found.setdefault(uid, []).append(document)
    return found


def _wanting(job: object, pods: Sequence[object]) -> Document:
    """Give a pod without a node, of which admission has resolved what the template leaves open; else the template."""
    waiting = (pod for pod in pods if not observe_pod(pod).ended and not observe_pod(pod).node)
    found = next(waiting, None)
    return found if isinstance(found, Mapping) else child(child(job, "spec"), "template")


def _generation(job: JobObservation) -> int:
    told = job.annotations.get(ANNOTATION_GENERATION, "")
    return int(told) if told.isascii() and told.isdecimal() and len(told) < _DIGITS else 0
