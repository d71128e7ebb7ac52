"""How a training ended -> result, retry or final failure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from gpu_training.contract import Result, ResultStatus
from gpu_training.core.attempts import Attempt
from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.errors import (
    ClusterRejected,
    ClusterUnavailable,
    ConfigurationError,
    DataVersionError,
    JobNameConflict,
    LedgerConflict,
    RegistryError,
    TrainingFailed,
)
from gpu_training.core.events import EventError, JobReference, TrainingEvent, Work
from gpu_training.core.verdict import Action, Category, Owner, Verdict
from gpu_training.operators.outcomes import TrainingFailedForGood, conclude, final_where_retrying_is_useless

pytestmark = pytest.mark.unit

WORK = Work(
    model="m",
    image="i:1",
    fingerprint="sha256:0",
    lineage="0123456789abcdef",
    generation=1,
    data_version="v",
    data_digest="sha256:1",
    mlflow_run_id="run",
)


def verdict(action: Action) -> Verdict:
    return Verdict(
        category=Category.APPLICATION_ERROR,
        owner=Owner.APPLICATION,
        summary="it broke",
        remedy="mend it",
        action=action,
    )


def attempt(number: int, seconds: float, *, estimated: bool = False, verdict: Verdict | None = None) -> Attempt:
    return Attempt(
        number=number,
        pod=f"p-{number}",
        uid=f"u-{number}",
        node=f"n-{number}",
        started_at=100.0 * number,
        ended_at=100.0 * number + seconds,
        gpus=1,
        gpu_seconds=seconds,
        estimated=estimated,
        verdict=verdict,
    )


def event(kind: OutcomeKind, *, spent: str | None = None, **outcome: Any) -> TrainingEvent:
    attempts = (attempt(1, 2.5, estimated=True, verdict=verdict(Action.RETRY)), attempt(2, 4.0))
    job = JobReference(namespace="n", name="j", uid="u")
    return TrainingEvent(job=job, work=WORK, outcome=Outcome(kind=kind, attempts=attempts, **outcome), spent=spent)


def test_a_success_becomes_a_small_plain_document() -> None:
    result = Result(status=ResultStatus.TRAINED, metrics={"mae": 1.5}, model_uri="models:/m-1", device="cpu")
    document = conclude(event(OutcomeKind.SUCCEEDED, result=result))

    assert json.loads(json.dumps(document)) == document
    assert document["attempts"] == 2
    assert document["gpu_seconds"] == 6.5
    assert document["node_names"] == ["n-1", "n-2"]
    assert document["mlflow_run_id"] == "run"
    assert document["image"] == "i:1"


@pytest.mark.parametrize("kind", [OutcomeKind.FAILED, OutcomeKind.TIMED_OUT, OutcomeKind.LOST])
@pytest.mark.parametrize("action", list(Action))
def test_only_a_failure_that_no_repetition_helps_is_final(kind: OutcomeKind, action: Action) -> None:
    with pytest.raises(TrainingFailed) as caught:
        conclude(event(kind, verdict=verdict(action)))

    assert isinstance(caught.value, AirflowFailException) is (action is Action.FAIL)


@pytest.mark.case("C070")
def test_a_failure_says_what_whose_what_to_do_and_every_attempt() -> None:
    with pytest.raises(TrainingFailed) as caught:
        conclude(event(OutcomeKind.FAILED, verdict=verdict(Action.RETRY)))

    said = str(caught.value)
    for part in ("n/j failed", "it broke", "whose: application", "mend it", "attempt 1: pod p-1 on n-1, about 2.5"):
        assert part in said


def test_a_failure_with_a_spent_budget_is_final_and_says_where_it_went() -> None:
    with pytest.raises(TrainingFailedForGood) as caught:
        conclude(event(OutcomeKind.FAILED, verdict=verdict(Action.RETRY), spent="2 of 2 attempts"))

    said = str(caught.value)
    for part in ("the budget is spent: 2 of 2 attempts", "attempt 1: pod p-1", "attempt 2: pod p-2", "fresh budget"):
        assert part in said


def test_an_event_without_a_verdict_is_an_error_and_no_success() -> None:
    with pytest.raises(EventError, match="without a verdict"):
        conclude(event(OutcomeKind.FAILED))


FINAL = [
    ConfigurationError("a", 1, "b"),
    DataVersionError("a"),
    ClusterRejected("a"),
    JobNameConflict("a"),
    LedgerConflict("a"),
    EventError("a"),
    RegistryError("a", transient=False),
]
RETRIED = [ClusterUnavailable("a"), RegistryError("a", transient=True), RuntimeError("a")]


@pytest.mark.parametrize("error", FINAL, ids=lambda error: type(error).__name__)
def test_what_only_an_edit_cures_is_not_retried(error: Exception) -> None:
    with pytest.raises(AirflowFailException) as caught, final_where_retrying_is_useless():
        raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", RETRIED, ids=lambda error: type(error).__name__)
def test_what_may_pass_is_left_to_airflows_retries(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, final_where_retrying_is_useless():
        raise error
    assert not isinstance(caught.value, AirflowFailException)
