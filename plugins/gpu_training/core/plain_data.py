"""Plain JSON data <-> the values that travel in trigger events and stand in ledgers. What is read may hold anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from typing import Any, TypeVar

from gpu_training.contract import Result, ResultStatus
from gpu_training.core.attempts import Attempt
from gpu_training.core.errors import GpuTrainingError, shown
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_Value = TypeVar("_Value", bound=StrEnum)


class PlainDataError(GpuTrainingError):
    """A field of plain data is not what it has to be."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"{name}={shown(value)}: {expected} is expected")


def plain_verdict(verdict: Verdict | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in asdict(verdict).items()} if verdict is not None else None


def plain_result(result: Result | None) -> dict[str, Any] | None:
    return {**asdict(result), "status": result.status.value} if result is not None else None


def plain_attempt(attempt: Attempt) -> dict[str, Any]:
    return {**asdict(attempt), "verdict": plain_verdict(attempt.verdict)}


def attempt_of(body: Mapping[str, object]) -> Attempt:
    estimated = body.get("estimated")
    if not isinstance(estimated, bool):
        raise PlainDataError("estimated", estimated, "true or false")
    return Attempt(
        number=whole(body, "number"),
        pod=text(body, "pod"),
        uid=text(body, "uid"),
        node=text(body, "node"),
        started_at=optional_number(body, "started_at"),
        ended_at=optional_number(body, "ended_at"),
        gpus=whole(body, "gpus"),
        gpu_seconds=number(body, "gpu_seconds"),
        estimated=estimated,
        verdict=verdict_of(body.get("verdict")),
        first_step=optional_whole(body, "first_step"),
        first_reported_step=optional_whole(body, "first_reported_step"),
        last_step=optional_whole(body, "last_step"),
        checkpoint_step=optional_whole(body, "checkpoint_step"),
    )


def verdict_of(payload: object) -> Verdict | None:
    if payload is None:
        return None
    body = mapping(payload, "verdict")
    return Verdict(
        category=one_of(Category, body, "category"),
        owner=one_of(Owner, body, "owner"),
        action=one_of(Action, body, "action"),
        summary=text(body, "summary"),
        remedy=text(body, "remedy"),
    )


def result_of(payload: object) -> Result | None:
    if payload is None:
        return None
    body = mapping(payload, "result")
    metrics = mapping(body.get("metrics"), "metrics")
    return Result(
        status=one_of(ResultStatus, body, "status"),
        data_version=optional_text(body, "data_version"),
        data_digest=optional_text(body, "data_digest"),
        mlflow_run_id=optional_text(body, "mlflow_run_id"),
        model_uri=optional_text(body, "model_uri"),
        metrics={name: number(metrics, name) for name in metrics},
        first_step=optional_whole(body, "first_step"),
        last_step=optional_whole(body, "last_step"),
        checkpoint_step=optional_whole(body, "checkpoint_step"),
        device=optional_text(body, "device"),
        pod_uid=optional_text(body, "pod_uid"),
        error=optional_text(body, "error"),
    )


def mapping(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PlainDataError(name, value, "a mapping")
    return value


def text(body: Mapping[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise PlainDataError(name, value, "a text")
    return value


def optional_text(body: Mapping[str, object], name: str) -> str | None:
    return None if body.get(name) is None else text(body, name)


def texts(body: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = body.get(name)
    if not isinstance(value, list):
        raise PlainDataError(name, value, "a list")
    return tuple(text({name: entry}, name) for entry in value)


def whole(body: Mapping[str, object], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlainDataError(name, value, "a whole number")
    return value


def optional_whole(body: Mapping[str, object], name: str) -> int | None:
    return None if body.get(name) is None else whole(body, name)


def number(body: Mapping[str, object], name: str) -> float:
    value = body.get(name)
    # Bounds an integer, too, that no float can hold.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e308:
        raise PlainDataError(name, value, "a finite number")
    return float(value)


def optional_number(body: Mapping[str, object], name: str) -> float | None:
    return None if body.get(name) is None else number(body, name)


def one_of(kind: type[_Value], body: Mapping[str, object], name: str) -> _Value:
    value = text(body, name)
    if value not in set(kind):
        raise PlainDataError(name, value, f"one of {', '.join(kind)}")
    return kind(value)
