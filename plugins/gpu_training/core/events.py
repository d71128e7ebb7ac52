"""Trigger event <-> payload, versioned: a triggerer of one release may fire for a worker of the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gpu_training.core import plain_data
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.plain_data import plain_attempt, plain_result, plain_verdict

EVENT_VERSION: Final = 4
_WORDS_OF_WORK: Final = ("model", "image", "fingerprint", "lineage", "data_version", "data_digest", "mlflow_run_id")


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
    :param lineage: the lineage's key, which names its ledger.
    :param generation: counter in the lineage, from 1.
    """

    model: str
    image: str
    fingerprint: str
    lineage: str
    generation: int
    data_version: str
    data_digest: str
    mlflow_run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingEvent:
    """What the trigger hands to the operator: which Job, what it trained, and how it ended.

    :param outcome: of the Job; its attempts are those of the whole generation, as far as the ledger has them.
    :param image: digest reference that the node reported for the training container; "" when it was not seen.
    :param spent: what of the lineage's budget is spent, so that no retry makes another Job; None while one may.
    :param waiting: why it waited when its wait was given up, as lines; none where it did not wait then.
    """

    job: JobReference
    work: Work
    outcome: Outcome
    image: str = ""
    spent: str | None = None
    waiting: tuple[str, ...] = ()


def to_payload(event: TrainingEvent) -> dict[str, Any]:
    """Give the event as plain JSON data without anything secret: no manifest, no environment."""
    outcome = event.outcome
    return {
        "v": EVENT_VERSION,
        "job": asdict(event.job),
        "work": asdict(event.work),
        "image": event.image,
        "kind": outcome.kind.value,
        "attempts": [plain_attempt(attempt) for attempt in outcome.attempts],
        "verdict": plain_verdict(outcome.verdict),
        "result": plain_result(outcome.result),
        "spent": event.spent,
        "waiting": list(event.waiting),
    }


def from_payload(payload: object) -> TrainingEvent:
    """Give the event in a payload.

    :raises EventError: another version, or not an event at all.
    """
    try:
        return _event(plain_data.mapping(payload, "payload"))
    except plain_data.PlainDataError as fault:
        raise EventError(f"trigger event: {fault}; clear the task to retry") from None


def _event(body: Mapping[str, object]) -> TrainingEvent:
    if body.get("v") != EVENT_VERSION:
        raise plain_data.PlainDataError("v", body.get("v"), f"version {EVENT_VERSION}, which this release reads,")
    job, work = (plain_data.mapping(body.get(name), name) for name in ("job", "work"))
    attempts = body.get("attempts")
    if not isinstance(attempts, list):
        raise plain_data.PlainDataError("attempts", attempts, "a list")
    return TrainingEvent(
        job=JobReference(**{name: plain_data.text(job, name) for name in ("namespace", "name", "uid")}),
        work=Work(
            generation=plain_data.whole(work, "generation"),
            **{name: plain_data.text(work, name) for name in _WORDS_OF_WORK},
        ),
        image=plain_data.text(body, "image"),
        spent=plain_data.optional_text(body, "spent"),
        waiting=plain_data.texts(body, "waiting"),
        outcome=Outcome(
            kind=plain_data.one_of(OutcomeKind, body, "kind"),
            attempts=tuple(plain_data.attempt_of(plain_data.mapping(entry, "attempts")) for entry in attempts),
            verdict=plain_data.verdict_of(body.get("verdict")),
            result=plain_data.result_of(body.get("result")),
        ),
    )
