"""Whatever a document holds, the answer is a value or an error of ours in a short message, and never another error."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import (
    complete,
    condition,
    container,
    disruption,
    failed,
    failed_pod,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    terminated,
    waiting,
)
from tests.unit.core.specs import SETTINGS, full_document, identity, spec

from gpu_training.core.attempts import attempts_of, total_gpu_seconds
from gpu_training.core.dataversion import DataVersion, parse_data_version
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.documents import parse_time
from gpu_training.core.errors import ConfigurationError, DataVersionError, GpuTrainingError
from gpu_training.core.events import EventError, JobReference, TrainingEvent, Work, from_payload, to_payload
from gpu_training.core.manifest import build_job
from gpu_training.core.observation import observe
from gpu_training.core.phase import Wait
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.rule_documents import parse_rules, parse_team_rules
from gpu_training.core.rules import RuleTable
from gpu_training.core.spec import parse_training_spec
from gpu_training.rule_table import built_in_rules, rules_for

pytestmark = pytest.mark.core

LONGEST_MESSAGE = 1500
RULES = built_in_rules()

jobs = damaged(
    job(),
    complete(),
    failed(),
    job(condition("Suspended"), spec={"suspend": True}),
    job(condition("FailureTarget", reason="DeadlineExceeded")),
)
pods = damaged(
    pod("Pending", scheduled=None, conditions=[condition("PodScheduled", status="False")]),
    pod("Pending", container(waiting("ImagePullBackOff", "x")), init=[container(running(), name="init")]),
    pod("Running", container(running()), conditions=[disruption(9)]),
    pod("Failed", status={"reason": "OutOfcpu"}),
    failed_pod(83),
    pod("Failed", container(terminated(128, reason="StartError", started=None))),
    succeeded_pod(index=1),
)
moments = st.floats(min_value=0, max_value=4e9)
findings = st.sampled_from(["gpu-hardware", "disrupted", "no such rule", ""])


def answer_of(call: Callable[[], Any], refusal: type[GpuTrainingError]) -> Any:
    """Give what a call gives, or the refusal that it raises, whose message is looked at."""
    try:
        return call()
    except refusal as exc:
        error = exc
    assert len(str(error)) < LONGEST_MESSAGE
    return error


@given(damaged(full_document()), st.booleans())
def test_a_training_document_is_a_spec_or_refused(document: Any, templates: bool) -> None:
    answer = answer_of(lambda: parse_training_spec(document, templates=templates), ConfigurationError)
    assert str(answer).isprintable() or not isinstance(answer, ConfigurationError)


@given(jobs, st.lists(pods, max_size=3), st.lists(pods, max_size=2), st.booleans(), st.booleans(), moments, findings)
def test_any_documents_are_observed_and_decided(
    job_document: Any, live: list[Any], gone_pods: list[Any], gone: bool, required: bool, now: float, found: str
) -> None:
    seen = observe(job_document, live, gone_pods=gone_pods, gone=gone)
    seen = replace(seen, findings={pod.name: found for pod in seen.pods})
    decision = decide(seen, Policy(rules=RULES, result_required=required), now)
    if isinstance(decision, Wait):
        assert decision.detail
        return
    assert (decision.verdict is None) == (decision.kind is OutcomeKind.SUCCEEDED)
    sent = TrainingEvent(
        job=JobReference(namespace="", name="", uid=""),
        work=Work(
            model="",
            fingerprint="",
            lineage="",
            generation=1,
            data_version="",
            data_digest="",
            mlflow_run_id="",
            image="",
        ),
        outcome=decision,
    )
    assert from_payload(json.loads(json.dumps(to_payload(sent)))) == sent


@given(anything, st.lists(anything, max_size=2))
def test_documents_that_are_nothing_of_the_kind_are_no_success(job_document: Any, live: list[Any]) -> None:
    decision = decide(observe(job_document, live), Policy(rules=RULES), moment(0))
    assert not (isinstance(decision, Outcome) and decision.kind is OutcomeKind.SUCCEEDED)


@given(jobs, st.lists(pods, max_size=3), st.lists(pods, max_size=2), moments, moments)
def test_gpu_seconds_are_never_negative_and_never_fall(
    job_document: Any, live: list[Any], gone_pods: list[Any], one: float, other: float
) -> None:
    seen = observe(job_document, live, gone_pods=gone_pods)
    before, after = (attempts_of(seen, now, RULES) for now in sorted((one, other)))
    assert len(before) == len(after)
    for earlier, later in zip(before, after, strict=True):
        assert 0 <= earlier.gpu_seconds <= later.gpu_seconds
    assert total_gpu_seconds(before) <= total_gpu_seconds(after)


EVENT = {
    "v": 3,
    "job": {"namespace": "n", "name": "j", "uid": "u"},
    "work": {
        "model": "m",
        "fingerprint": "f",
        "generation": 1,
        "data_version": "d",
        "data_digest": "d",
        "mlflow_run_id": "r",
        "image": "i",
    },
    "image": "",
    "kind": "failed",
    "attempts": [
        {
            "number": 1,
            "pod": "p",
            "uid": "u-p",
            "node": "n",
            "started_at": 1.0,
            "ended_at": 2.5,
            "gpus": 1,
            "gpu_seconds": 1.5,
            "estimated": False,
            "verdict": None,
        }
    ],
    "verdict": {"category": "killed", "owner": "application", "action": "fail", "summary": "s", "remedy": "r"},
    "result": {"status": "failed", "metrics": {"a": 1.0}, "error": "e", "last_step": 5},
    "spent": "3 of 3 attempts",
}


@given(damaged(EVENT))
def test_a_payload_is_an_event_or_refused(payload: Any) -> None:
    answer = answer_of(lambda: from_payload(payload), EventError)
    if isinstance(answer, TrainingEvent):
        assert from_payload(to_payload(answer)) == answer


VERSION = {
    "source": "s",
    "ref": "latest",
    "id": "v1",
    "digest": "sha256:" + "0" * 64,
    "uri": "s3://a/b",
    "created_at": "2026-03-01T00:00:00Z",
}


@given(damaged(VERSION))
def test_a_data_version_is_one_or_refused(document: Any) -> None:
    answer = answer_of(lambda: parse_data_version(document), DataVersionError)
    if isinstance(answer, DataVersion):
        assert answer.to_document() == document


SPEC = spec(volumes=[{"name": "v", "mount_path": "/v", "claim": "c"}], environment_from_secrets=["s"])
IDENTITY = identity(SPEC)
JOB = build_job({"spec": {"template": {"spec": {"initContainers": [{"name": "i"}]}}}}, SPEC, IDENTITY, SETTINGS, RULES)


@given(damaged(JOB))
def test_a_base_is_built_upon_or_refused(base: Any) -> None:
    body = base if isinstance(base, dict) else {}
    built = answer_of(lambda: build_job(body, SPEC, IDENTITY, SETTINGS, RULES), ConfigurationError)
    if isinstance(built, ConfigurationError):
        return
    assert built["metadata"]["name"] == JOB["metadata"]["name"]
    assert built["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert built["spec"]["podReplacementPolicy"] == "Failed"
    training = [c for c in built["spec"]["template"]["spec"]["containers"] if c.get("name") == "training"]
    assert [c["resources"] for c in training[:1]] == [
        {"requests": {**SPEC.resources.requests}, "limits": {**SPEC.resources.limits}}
    ]


TEAM = [
    {
        "name": "broken-loader",
        "category": "bad_data",
        "owner": "application",
        "action": "retry_elsewhere",
        "remedy": "read the loader's log",
        "exit_codes": [7, 84],
        "pod_conditions": ["GpuLost"],
        "container_reasons": ["OOM*"],
        "pod_reasons": ["Evicted"],
        "admission_reasons": ["OutOf*"],
        "log_patterns": ["loader * died", "NCCL*timed out"],
        "overrides": ["communication-timeout", "out-of-memory"],
    }
]


@given(damaged(TEAM))
def test_a_teams_rules_are_rules_or_refused(document: Any) -> None:
    team = answer_of(lambda: parse_team_rules(document, "r"), ConfigurationError)
    if isinstance(team, ConfigurationError):
        return
    table = answer_of(lambda: rules_for(team, "r"), ConfigurationError)
    if isinstance(table, RuleTable):
        assert parse_rules(json.loads(json.dumps(table.to_document())), "r") == table


@given(damaged(RULES.to_document()))
def test_a_table_is_one_or_refused(document: Any) -> None:
    table = answer_of(lambda: parse_rules(document, "r"), ConfigurationError)
    if isinstance(table, RuleTable):
        assert parse_rules(table.to_document(), "r") == table


@given(anything | st.text() | st.datetimes() | st.datetimes(timezones=st.timezones()))
def test_a_time_is_one_or_none(value: Any) -> None:
    seconds = parse_time(value)
    assert seconds is None or 0 < seconds < 1e12


@given(anything | st.text() | st.from_regex(r"[0-9.eE+-]{1,40}(Gi|m|k)?", fullmatch=True))
def test_a_quantity_is_one_or_none(value: Any) -> None:
    amount = parse_quantity(value)
    assert amount is None or abs(amount) < 10**150


def test_a_document_without_end_is_refused_and_not_followed() -> None:
    endless: dict[str, Any] = full_document()
    endless["arguments"] = endless
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(endless)
    assert len(str(caught.value)) < LONGEST_MESSAGE
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigurationError):
        parse_training_spec({**full_document(), "model": deep})
    with pytest.raises(EventError):
        from_payload({**EVENT, "result": deep})
    with pytest.raises(ConfigurationError):
        parse_training_spec({**full_document(), "model": 10**5000})
