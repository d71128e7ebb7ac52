"""How a training ended -> what the task does: the only place that decides between result, retry and final failure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from gpu_training.contract import Result
from gpu_training.core.attempts import Attempt, total_gpu_seconds
from gpu_training.core.decide import OutcomeKind
from gpu_training.core.errors import (
    ClusterRejected,
    ConfigurationError,
    DataVersionError,
    JobNameConflict,
    LedgerConflict,
    RegistryError,
    TrainingFailed,
)
from gpu_training.core.events import EventError, JobReference, TrainingEvent, Work
from gpu_training.core.naming import Identity
from gpu_training.core.resume import repeated_steps, total_repeated_steps
from gpu_training.core.verdict import Action, Verdict

_FINAL = (ConfigurationError, DataVersionError, ClusterRejected, JobNameConflict, LedgerConflict, EventError)


class TrainingFailedForGood(TrainingFailed, AirflowFailException):
    """The training failed in a way that no repetition helps: Airflow does not retry."""


@contextmanager
def final_where_retrying_is_useless() -> Iterator[None]:
    """Let errors that only an edit can cure fail the task at once; all others stay for Airflow to retry."""
    try:
        yield
    except RegistryError as error:
        if error.transient:
            raise
        raise AirflowFailException(str(error)) from error
    except _FINAL as error:
        raise AirflowFailException(str(error)) from error


def conclude(event: TrainingEvent) -> dict[str, Any]:
    """Give the result document of a training that succeeded: small, plain, without anything secret.

    :raises TrainingFailed: it did not succeed, and trying again may help.
    :raises TrainingFailedForGood: it did not succeed, and trying again does not help, or may not be paid for any more.
    """
    if event.outcome.kind is not OutcomeKind.SUCCEEDED:
        raise failure_of(event)
    return result_document(event.job, event.work, event.image, event.outcome.attempts, event.outcome.result)


def result_document(
    job: JobReference,
    work: Work,
    image: str,
    attempts: Sequence[Attempt],
    result: Result | None,
    *,
    reused: bool = False,
    model_version: str | None = None,
) -> dict[str, Any]:
    """Give what the task hands on.

    :param attempts: those that this task's training took; none where it is reused.
    :param reused: whether another run had trained it before.
    :param model_version: version that the model is registered as already, if it is.
    """
    return {
        "job": job.name,
        "namespace": job.namespace,
        "job_uid": job.uid,
        "model": work.model,
        "fingerprint": work.fingerprint,
        "generation": work.generation,
        "data_version": work.data_version,
        "data_digest": work.data_digest,
        "image": image or work.image,
        "reused": reused,
        "model_version": model_version,
        "attempts": len(attempts),
        "gpu_seconds": total_gpu_seconds(attempts),
        "node_names": sorted({attempt.node for attempt in attempts if attempt.node}),
        "metrics": dict(result.metrics) if result else {},
        "model_uri": result.model_uri if result else None,
        "mlflow_run_id": (result.mlflow_run_id if result else None) or work.mlflow_run_id,
        "device": result.device if result else None,
        "last_step": result.last_step if result else None,
        "repeated_steps": total_repeated_steps(attempts),
    }


def failure_of(event: TrainingEvent) -> TrainingFailed:
    """Give the exception for a training that did not succeed."""
    verdict = event.outcome.verdict
    if verdict is None:
        raise EventError(f"trigger event of Job {event.job.name}: {event.outcome.kind} without a verdict")
    cls = TrainingFailedForGood if verdict.action is Action.FAIL or event.spent is not None else TrainingFailed
    subject = f"Job {event.job.namespace}/{event.job.name} {event.outcome.kind}"
    return cls(_explain(subject, verdict, event.outcome.attempts, event.spent, event.waiting), verdict)


def refusal_of(verdict: Verdict, identity: Identity, attempts: Sequence[Attempt]) -> TrainingFailedForGood:
    """Give the exception for a training that no Job is made for any more."""
    subject = (
        f"Nothing is trained for {identity.model} {identity.data_version} (lineage {identity.lineage}): an earlier run "
        "has spent the budget, or failed for good; clear the task, or trigger a run by hand, to try again"
    )
    return TrainingFailedForGood(_explain(subject, verdict, attempts, None), verdict)


def _explain(
    subject: str, verdict: Verdict, attempts: Sequence[Attempt], spent: str | None, waiting: Sequence[str] = ()
) -> str:
    lines = [
        f"{subject} ({verdict.category}): {verdict.summary}",
        f"whose: {verdict.owner}; what to do: {verdict.remedy}",
    ]
    if spent is not None:
        lines.append(
            f"the budget is spent: {spent}; no retry is made. Clear the task, or trigger a run by hand, for a fresh "
            "budget, or raise training.budget"
        )
    return "\n".join([*lines, *waiting, *attempt_table(attempts)])


def attempt_table(attempts: Sequence[Attempt]) -> list[str]:
    """Give one line an attempt: number, pod, node, GPU-seconds, and what its end means."""
    return [
        f"attempt {attempt.number}: pod {attempt.pod} on {attempt.node or 'no node'}, "
        f"{'about ' if attempt.estimated else ''}{attempt.gpu_seconds:g} GPU-seconds: "
        f"{attempt.verdict.category if attempt.verdict else 'succeeded'}{_steps(attempt, attempts)}"
        for attempt in attempts
    ]


def _steps(attempt: Attempt, attempts: Sequence[Attempt]) -> str:
    if attempt.last_step is None:
        return ""
    first = f"steps {attempt.first_step} to" if attempt.first_step is not None else "up to step"
    repeated = repeated_steps(attempt, attempts)
    again = f", {repeated} of them done before" if repeated else ""
    return f"; {first} {attempt.last_step}{again}"
