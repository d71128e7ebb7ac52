"""Trigger event <-> payload, versioned: a triggerer of one release may fire for a worker of the next."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gpu_training.contract import ContractError, parse_result, render_result
from gpu_training.core.attempts import Attempt
from gpu_training.core.classify import Action, Category, Owner, Verdict
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.errors import GpuTrainingError

EVENT_VERSION: Final = 1


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

    :param generation: counter in the lineage, from 1.
    """

    model: str
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
        "result": json.loads(render_result(outcome.result)) if outcome.result is not None else None,
    }


def _verdict_payload(verdict: Verdict | None) -> dict[str, str] | None:
    return {name: str(value) for name, value in asdict(verdict).items()} if verdict is not None else None


def from_payload(payload: Mapping[str, Any]) -> TrainingEvent:
    """Give the event in a payload.

    :raises EventError: another version, or not an event at all.
    """
    version = payload.get("v")
    if version != EVENT_VERSION:
        raise EventError(
            f"trigger event: v={version!r}: this release reads version {EVENT_VERSION}; clear the task to retry"
        )
    try:
        result = payload["result"]
        return TrainingEvent(
            job=JobReference(**payload["job"]),
            work=Work(**payload["work"]),
            image=payload["image"],
            outcome=Outcome(
                kind=OutcomeKind(payload["kind"]),
                attempts=tuple(
                    Attempt(**{**attempt, "verdict": _verdict(attempt["verdict"])}) for attempt in payload["attempts"]
                ),
                verdict=_verdict(payload["verdict"]),
                result=parse_result(json.dumps(result, ensure_ascii=False, separators=(",", ":"))) if result else None,
            ),
        )
    except (KeyError, TypeError, ValueError, ContractError) as exc:
        raise EventError(f"trigger event can not be read: {exc!r}") from exc


def _verdict(payload: Mapping[str, str] | None) -> Verdict | None:
    if payload is None:
        return None
    return Verdict(
        category=Category(payload["category"]),
        owner=Owner(payload["owner"]),
        action=Action(payload["action"]),
        summary=payload["summary"],
        remedy=payload["remedy"],
    )
