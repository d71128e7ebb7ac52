"""Trigger event <-> payload, versioned: a triggerer of one release may fire for a worker of the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from gpu_training.contract import Result, ResultStatus
from gpu_training.core.attempts import Attempt
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.errors import GpuTrainingError, shown
from gpu_training.core.verdict import Action, Category, Owner, Verdict

EVENT_VERSION: Final = 2

_Value = TypeVar("_Value", bound=StrEnum)


class EventError(GpuTrainingError):
    """A trigger event that this release can not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReference:
    """Which Job: the UID tells it from another of the same name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is trained, as it was when the Job was made: templates may render to something else when the task resumes.

    :param image: as the spec names it.
    :param generation: counter in the lineage, from 1.
    """

    model: str
    image: str
    fingerprint: str
    generation: int
    data_version: str
    data_digest: str
    mlflow_run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEvent:
    """What the trigger hands to the operator: which Job, what it trained, and how it ended.

    :param image: digest reference that the node reported for the training container; "" when it was not seen.
    """

    job: JobReference
    work: Work
    outcome: Outcome
    image: str = ""


def to_payload(event: TrainingEvent) -> dict[str, Any]:
    """Give the event as plain JSON data without anything secret: no manifest, no environment."""
    outcome = event.outcome
    return {
        "v": EVENT_VERSION,
        "job": asdict(event.job),
        "work": asdict(event.work),
        "image": event.image,
        "kind": outcome.kind.value,
        "attempts": [{**asdict(attempt), "verdict": _verdict_payload(attempt.verdict)} for attempt in outcome.attempts],
        "verdict": _verdict_payload(outcome.verdict),
        "result": _result_payload(outcome.result),
    }


def _verdict_payload(verdict: Verdict | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in asdict(verdict).items()} if verdict is not None else None


def _result_payload(result: Result | None) -> dict[str, Any] | None:
    return {**asdict(result), "status": result.status.value} if result is not None else None


def from_payload(payload: object) -> TrainingEvent:
    """Give the event in a payload.

    :raises EventError: another version, or not an event at all.
    """
    body = _mapping(payload, "payload")
    if body.get("v") != EVENT_VERSION:
        raise _fault("v", body.get("v"), f"version {EVENT_VERSION}, which this release reads,")
    job, work = _mapping(body.get("job"), "job"), _mapping(body.get("work"), "work")
    attempts = body.get("attempts")
    if not isinstance(attempts, list):
        raise _fault("attempts", attempts, "a list")
    return TrainingEvent(
        job=JobReference(namespace=_text(job, "namespace"), name=_text(job, "name"), uid=_text(job, "uid")),
        work=Work(
            model=_text(work, "model"),
            image=_text(work, "image"),
            fingerprint=_text(work, "fingerprint"),
            generation=_whole(work, "generation"),
            data_version=_text(work, "data_version"),
            data_digest=_text(work, "data_digest"),
            mlflow_run_id=_text(work, "mlflow_run_id"),
        ),
        image=_text(body, "image"),
        outcome=Outcome(
            kind=_one_of(OutcomeKind, body, "kind"),
            attempts=tuple(_attempt(_mapping(entry, "attempts")) for entry in attempts),
            verdict=_verdict(body.get("verdict")),
            result=_result(body.get("result")),
        ),
    )


def _attempt(body: Mapping[str, object]) -> Attempt:
    estimated = body.get("estimated")
    if not isinstance(estimated, bool):
        raise _fault("estimated", estimated, "true or false")
    return Attempt(
        number=_whole(body, "number"),
        pod=_text(body, "pod"),
        uid=_text(body, "uid"),
        node=_text(body, "node"),
        started_at=_optional_number(body, "started_at"),
        ended_at=_optional_number(body, "ended_at"),
        gpus=_whole(body, "gpus"),
        gpu_seconds=_number(body, "gpu_seconds"),
        estimated=estimated,
        verdict=_verdict(body.get("verdict")),
    )


def _verdict(payload: object) -> Verdict | None:
    if payload is None:
        return None
    body = _mapping(payload, "verdict")
    return Verdict(
        category=_one_of(Category, body, "category"),
        owner=_one_of(Owner, body, "owner"),
        action=_one_of(Action, body, "action"),
        summary=_text(body, "summary"),
        remedy=_text(body, "remedy"),
    )


def _result(payload: object) -> Result | None:
    if payload is None:
        return None
    body = _mapping(payload, "result")
    metrics = _mapping(body.get("metrics"), "metrics")
    return Result(
        status=_one_of(ResultStatus, body, "status"),
        data_version=_optional_text(body, "data_version"),
        data_digest=_optional_text(body, "data_digest"),
        mlflow_run_id=_optional_text(body, "mlflow_run_id"),
        model_uri=_optional_text(body, "model_uri"),
        metrics={name: _number(metrics, name) for name in metrics},
        first_step=None if body.get("first_step") is None else _whole(body, "first_step"),
        last_step=None if body.get("last_step") is None else _whole(body, "last_step"),
        device=_optional_text(body, "device"),
        error=_optional_text(body, "error"),
    )


def _fault(name: str, value: object, expected: str) -> EventError:
    return EventError(f"trigger event: {name}={shown(value)}: {expected} is expected; clear the task to retry")


def _mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _fault(name, value, "a mapping")
    return value


def _text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _fault(name, value, "a text")
    return value


def _optional_text(body: Mapping[str, object], name: str) -> str | None:
    return None if body.get(name) is None else _text(body, name)


def _whole(body: Mapping[str, object], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _fault(name, value, "a whole number")
    return value


def _number(body: Mapping[str, object], name: str) -> float:
    value = body.get(name)
    # Bounds an integer, too, that no float can hold.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e308:
        raise _fault(name, value, "a finite number")
    return float(value)


def _optional_number(body: Mapping[str, object], name: str) -> float | None:
    return None if body.get(name) is None else _number(body, name)


def _one_of(kind: type[_Value], body: Mapping[str, object], name: str) -> _Value:
    value = _text(body, name)
    if value not in set(kind):
        raise _fault(name, value, f"one of {', '.join(kind)}")
    return kind(value)
