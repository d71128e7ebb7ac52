"""An event survives its way through JSON, and what is no event is refused in words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.kubernetes_documents import complete, failed, failed_pod, moment, succeeded_pod

from gpu_training.contract import Result, ResultStatus, parse_result
from gpu_training.core.attempts import Attempt
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.events import (
    EventError,
    JobReference,
    TrainingEvent,
    Work,
    from_payload,
    to_payload,
)
from gpu_training.core.observation import observe
from gpu_training.core.verdict import Action, Category, Owner, Verdict
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

JOB = JobReference(namespace="gpu-training", name="flight-delay-0123456789abcdef-g1-1", uid="u-1")
WORK = Work(
    model="flight-delay",
    lineage="0123456789abcdef",
    fingerprint="sha256:" + "f" * 64,
    generation=1,
    data_version="2026-03-01",
    data_digest="sha256:" + "d" * 64,
    mlflow_run_id="f" * 32,
    image="xgboost-trainer:0.1.0",
)

texts = st.text(max_size=30)
counts = st.integers(min_value=0, max_value=2**63 - 1)
amounts = st.floats(min_value=0, max_value=1e12, allow_nan=False)
verdicts = st.builds(
    Verdict,
    category=st.sampled_from(Category),
    owner=st.sampled_from(Owner),
    action=st.sampled_from(Action),
    summary=texts,
    remedy=texts,
)
attempts = st.builds(
    Attempt,
    number=counts,
    pod=texts,
    uid=texts,
    node=texts,
    started_at=st.none() | amounts,
    ended_at=st.none() | amounts,
    gpus=counts,
    gpu_seconds=amounts,
    estimated=st.booleans(),
    verdict=st.none() | verdicts,
)
results = st.builds(
    Result,
    status=st.sampled_from(ResultStatus),
    metrics=st.dictionaries(texts, st.floats(min_value=-1e300, max_value=1e300), max_size=3),
    **{name: st.none() | texts for name in ("data_version", "mlflow_run_id", "model_uri", "device", "error")},
    **{name: st.none() | counts for name in ("first_step", "last_step")},
)
outcomes = st.builds(
    Outcome,
    kind=st.sampled_from(OutcomeKind),
    attempts=st.lists(attempts, max_size=3).map(tuple),
    verdict=st.none() | verdicts,
    result=st.none() | results,
)


def event(outcome: Outcome, image: str = "", spent: str | None = None) -> TrainingEvent:
    return TrainingEvent(job=JOB, work=WORK, outcome=outcome, image=image, spent=spent)


@given(outcomes, texts, st.none() | texts)
def test_an_event_survives_json(outcome: Outcome, image: str, spent: str | None) -> None:
    sent = event(outcome, image, spent)
    assert from_payload(json.loads(json.dumps(to_payload(sent)))) == sent


@pytest.mark.parametrize(
    ("job", "pod"),
    [(complete(), succeeded_pod()), (failed(), failed_pod(1)), (complete(), succeeded_pod(""))],
)
def test_what_was_decided_survives_json(job: dict[str, Any], pod: dict[str, Any]) -> None:
    outcome = decide(observe(job, [pod]), Policy(rules=built_in_rules()), moment(20))
    assert isinstance(outcome, Outcome)
    assert from_payload(json.loads(json.dumps(to_payload(event(outcome))))).outcome == outcome


def test_the_largest_result_that_a_trainer_may_write_travels() -> None:
    """Written again, its whole numbers would be longer than the limit of the document that they came in."""
    metrics = ",".join(f'"m{n:03d}":1' for n in range(220))
    text = '{"v":1,"status":"trained","metrics":{' + metrics + "}}"
    assert 1900 < len(text) <= 2048
    outcome = Outcome(kind=OutcomeKind.SUCCEEDED, attempts=(), result=parse_result(text))
    assert from_payload(json.loads(json.dumps(to_payload(event(outcome))))).outcome == outcome


@pytest.mark.case("C084")
def test_a_payload_is_small_plain_data_without_anything_of_the_manifest() -> None:
    outcome = decide(observe(failed(), [failed_pod(1)]), Policy(rules=built_in_rules()), moment(20))
    assert isinstance(outcome, Outcome)
    payload = to_payload(event(outcome))
    assert payload.keys() == {"v", "job", "work", "image", "kind", "attempts", "verdict", "result", "spent", "waiting"}
    assert len(json.dumps(payload)) < 4000


ATTEMPT = Attempt(
    number=1,
    pod="p",
    uid="u-p",
    node="n",
    started_at=1.0,
    ended_at=2.0,
    gpus=1,
    gpu_seconds=1.0,
    estimated=False,
    verdict=None,
)
PAYLOAD: dict[str, Any] = to_payload(
    event(
        Outcome(
            kind=OutcomeKind.FAILED,
            attempts=(ATTEMPT,),
            verdict=Verdict(
                category=Category.UNKNOWN, owner=Owner.APPLICATION, action=Action.FAIL, summary="s", remedy="r"
            ),
            result=Result(status=ResultStatus.FAILED, metrics={"a": 1.0}),
        )
    )
)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["v"], 1, "v=1: version 4, which this release reads, is expected; clear the task to retry"),
        (["v"], None, "v=None"),
        (["job"], None, "job=None: a mapping is expected"),
        (["job", "uid"], 7, "uid=7: a text is expected"),
        (["work"], [], "work=[]: a mapping"),
        (["work", "generation"], "1", "generation='1': a whole number"),
        (["work", "generation"], True, "generation=True"),
        (["image"], None, "image=None"),
        (["kind"], "won", "kind='won': one of succeeded, failed, timed_out, lost"),
        (["kind"], ["failed"], "kind=['failed']: a text"),
        (["attempts"], {}, "attempts={}: a list"),
        (["attempts"], ["x"], "attempts='x': a mapping"),
        (["attempts", 0, "gpu_seconds"], float("nan"), "gpu_seconds=nan: a finite number"),
        (["attempts", 0, "gpu_seconds"], 10**400, "a finite number"),
        (["attempts", 0, "uid"], None, "uid=None: a text"),
        (["attempts", 0, "gpus"], 1.5, "gpus=1.5: a whole number"),
        (["attempts", 0, "started_at"], "noon", "started_at='noon': a finite number"),
        (["attempts", 0, "ended_at"], float("inf"), "ended_at=inf: a finite number"),
        (["attempts", 0, "estimated"], "no", "estimated='no': true or false"),
        (["attempts", 0, "verdict"], 5, "verdict=5: a mapping"),
        (["verdict", "category"], "bad luck", "category='bad luck': one of disrupted"),
        (["verdict", "action"], None, "action=None"),
        (["spent"], 5, "spent=5: a text"),
        (["result"], [], "result=[]: a mapping"),
        (["result", "status"], "ok", "status='ok': one of trained, failed"),
        (["result", "metrics"], None, "metrics=None: a mapping"),
        (["result", "metrics", "a"], "x", "a='x': a finite number"),
        (["result", "last_step"], 1.5, "last_step=1.5: a whole number"),
        (["result", "error"], 5, "error=5: a text"),
    ],
)
def test_a_payload_that_is_no_event_is_refused_naming_the_field(path: list[Any], value: object, words: str) -> None:
    payload = json.loads(json.dumps(PAYLOAD))
    inner = payload
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(EventError) as caught:
        from_payload(payload)
    assert words in str(caught.value)


@pytest.mark.parametrize("payload", [None, [], "x", 5, {}, {1: 2}])
def test_anything_else_is_refused_too(payload: object) -> None:
    with pytest.raises(EventError):
        from_payload(payload)


def test_fields_that_a_later_release_adds_are_ignored() -> None:
    assert from_payload({**PAYLOAD, "more": 1}) == from_payload(PAYLOAD)
