"""How a training ended -> what the task does: the only place that decides between result, retry and final failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from gpu_training.core.attempts import Attempt, total_gpu_seconds
from gpu_training.core.decide import OutcomeKind
from gpu_training.core.errors import (
    ClusterRejected,
    ConfigurationError,
    DataVersionError,
    JobNameConflict,
    RegistryError,
    TrainingFailed,
)
from gpu_training.core.events import EventError, TrainingEvent
from gpu_training.core.verdict import Action, Verdict

_FINAL = (ConfigurationError, DataVersionError, ClusterRejected, JobNameConflict, EventError)


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
    :raises TrainingFailedForGood: it did not succeed, and trying again does not help.
    """
    outcome, work = event.outcome, event.work
    if outcome.kind is not OutcomeKind.SUCCEEDED:
        raise failure_of(event)
    result = outcome.result
    return {
        "job": event.job.name,
        "namespace": event.job.namespace,
        "job_uid": event.job.uid,
        "model": work.model,
        "fingerprint": work.fingerprint,
        "generation": work.generation,
        "data_version": work.data_version,
        "data_digest": work.data_digest,
        "image": event.image or work.image,
        "attempts": len(outcome.attempts),
        "gpu_seconds": round(total_gpu_seconds(outcome.attempts), 3),
        "node_names": sorted({attempt.node for attempt in outcome.attempts if attempt.node}),
        "metrics": dict(result.metrics) if result else {},
        "model_uri": result.model_uri if result else None,
        "mlflow_run_id": (result.mlflow_run_id if result else None) or work.mlflow_run_id,
        "device": result.device if result else None,
        "last_step": result.last_step if result else None,
    }


def failure_of(event: TrainingEvent) -> TrainingFailed:
    """Give the exception for a training that did not succeed."""
    verdict = event.outcome.verdict
    if verdict is None:
        raise EventError(f"trigger event of Job {event.job.name}: {event.outcome.kind} without a verdict")
    cls = TrainingFailedForGood if verdict.action is Action.FAIL else TrainingFailed
    return cls(_explain(event, verdict), verdict)


def _explain(event: TrainingEvent, verdict: Verdict) -> str:
    lines = [
        f"Job {event.job.namespace}/{event.job.name} {event.outcome.kind} ({verdict.category}): {verdict.summary}",
        f"whose: {verdict.owner}; what to do: {verdict.remedy}",
    ]
    return "\n".join([*lines, *attempt_table(event.outcome.attempts)])


def attempt_table(attempts: tuple[Attempt, ...]) -> list[str]:
    """Give one line an attempt: number, pod, node, GPU-seconds, and what its end means."""
    return [
        f"attempt {attempt.number}: pod {attempt.pod} on {attempt.node or 'no node'}, "
        f"{'about ' if attempt.estimated else ''}{attempt.gpu_seconds:g} GPU-seconds: "
        f"{attempt.verdict.category if attempt.verdict else 'succeeded'}"
        for attempt in attempts
    ]
