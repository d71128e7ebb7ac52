"""What a ledger that is gone had known, from where it is known as well: the Job that lives, and the model registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from gpu_training.contract import Result, ResultStatus
from gpu_training.core.budget import DEFAULT_DISRUPTIONS, Allowance
from gpu_training.core.clocks import work_seconds_of
from gpu_training.core.documents import Document, child, entries, text
from gpu_training.core.ledger import Ledger, LedgerJob, Trained
from gpu_training.core.naming import ANNOTATION_CLOCKS, TRAINING_CONTAINER
from gpu_training.core.observation import observe_job
from gpu_training.core.orders import ADMISSION_SLACK
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import GPU_RESOURCE

_UNBOUNDED_S: Final = 30 * 24 * 3600


def recovered(document: Document, *, number: int, generation: int, now: float) -> LedgerJob:
    """Give the record of a Job. Attempts that are gone are lost with the ledger; those whose pods are there are not."""
    job = observe_job(document)
    spec = child(document, "spec")
    created = job.created_at if job.created_at is not None else now
    limits = _limits(spec)
    gpus = parse_quantity(limits.get(GPU_RESOURCE))
    return LedgerJob(
        number=number,
        generation=generation,
        period=1,
        name=job.name,
        uid=job.uid,
        created_at=created,
        seen_until=now,
        gpus=(max(0, int(gpus)) if gpus is not None else 0) * max(1, job.parallelism or 1),
        memory=text(limits, "memory"),
        allowance=Allowance(
            failures=max(0, (job.backoff_limit or 0) - ADMISSION_SLACK),
            disruptions=DEFAULT_DISRUPTIONS,
            gpu_seconds=None,
            wall_seconds=float(
                work_seconds_of(job.annotations.get(ANNOTATION_CLOCKS, "")) or job.deadline_seconds or _UNBOUNDED_S
            ),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTraining:
    """What a model registry knows of a training.

    :param generation: the newest of its work that is registered.
    """

    generation: int
    model_uri: str
    mlflow_run_id: str
    job_uid: str
    image: str


def remembered(ledger: Ledger, known: KnownTraining, now: float) -> Ledger:
    """Give a ledger that begins where its predecessor was, which was deleted, or pruned long after its last Job: what
    is trained is not trained again, and who asks for that gets the next generation. Any other is left as it is."""
    if ledger.updated_at or ledger.jobs or ledger.trained:
        return ledger
    trained = Trained(
        generation=known.generation,
        number=0,
        job="",
        job_uid=known.job_uid,
        mlflow_run_id=known.mlflow_run_id,
        image=known.image,
        at=now,
        result=Result(status=ResultStatus.TRAINED, model_uri=known.model_uri, mlflow_run_id=known.mlflow_run_id),
    )
    return replace(ledger, generation=known.generation, trained=(trained,))


def _limits(spec: Document) -> Document:
    pod = child(child(spec, "template"), "spec")
    found = (c for c in entries(pod, "containers") if c.get("name") == TRAINING_CONTAINER)
    return next((child(child(container, "resources"), "limits") for container in found), {})
