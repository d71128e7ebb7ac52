"""What keeps a training from running is said, and does not end it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from tests.cluster.trainings import (
    SUCCEED,
    RecordedTrigger,
    TaskInstance,
    defer,
    fire,
    operator,
    recorded,
    spec,
)
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

ENOUGH = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi", "nvidia.com/gpu": 1}}
TWO_GPUS = {**ENOUGH, "limits": {"memory": "64Mi", "nvidia.com/gpu": 2}}

PENDING = [
    # what is asked for, the phase, a part of its words
    ({"resources": TWO_GPUS}, {}, "queued", "Insufficient nvidia.com/gpu"),
    ({"node_selector": {"disk": "fast"}}, {}, "queued", "didn't match Pod's node affinity/selector"),
    ({"image": "no-such-image:1"}, {}, "starting", "Err"),
    ({"secret_environment": {"KEY": {"secret": "absent", "key": "key"}}}, {}, "starting", 'secret "absent" not found'),
    ({}, {"spec": {"suspend": True}}, "suspended", "suspended"),
]


@contextmanager
def waiting(trigger: RecordedTrigger) -> Iterator[list[dict[str, Any]]]:
    payloads: list[dict[str, Any]] = []
    thread = Thread(target=lambda: payloads.append(fire(trigger)))
    thread.start()
    yield payloads
    thread.join()


@pytest.mark.case("C006")
@pytest.mark.case("C035")
@pytest.mark.case("C044")
@pytest.mark.case("C046")
@pytest.mark.parametrize(
    ("change", "job", "phase", "words"), PENDING, ids=["gpu", "node", "image", "secret", "suspend"]
)
def test_a_training_that_can_not_run_waits_and_says_why(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    change: dict[str, Any],
    job: dict[str, Any],
    phase: str,
    words: str,
) -> None:
    trigger = recorded(defer(operator(spec(namespace, SUCCEED, **change), full_job_spec=job or None), TaskInstance()))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    with waiting(trigger) as payloads:
        wait_for(lambda: [line for line in trigger.record.about(f"{phase}: ") if words in line], 30, words)
        assert payloads == []
        sandbox.api.request("DELETE", path, {"propagationPolicy": "Foreground"})
    assert payloads[0]["kind"] == "lost"


@pytest.mark.case("C087")
def test_what_was_suspended_trains_when_it_is_released(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    job = {"spec": {"suspend": True}}
    trigger = recorded(defer(operator(spec(namespace, SUCCEED), full_job_spec=job), TaskInstance()))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    with waiting(trigger) as payloads:
        wait_for(lambda: trigger.record.about("suspended: "), 30, "the suspended phase")
        merge = "application/merge-patch+json"
        sandbox.api.request("PATCH", path, {"spec": {"suspend": False}}, content_type=merge)
    assert payloads[0]["kind"] == "succeeded"


@pytest.mark.case("C087")
def test_an_explicit_false_or_zero_wins_over_the_template(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    job = {"spec": {"suspend": True, "parallelism": 1}}
    trigger = defer(operator(spec(namespace, SUCCEED), full_job_spec=job, suspend=False), TaskInstance())

    assert fire(trigger)["kind"] == "succeeded"


@pytest.mark.case("C015")
@pytest.mark.case("C016")
@pytest.mark.case("C087")
def test_an_indexed_job_counts_every_pod(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    job = {"spec": {"completionMode": "Indexed", "completions": 3, "parallelism": 3}}
    payload = fire(defer(operator(spec(namespace, SUCCEED), full_job_spec=job), TaskInstance()))

    assert payload["kind"] == "succeeded"
    assert len(payload["attempts"]) == 3
    live = sandbox.api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{payload['job']['name']}")
    assert live["spec"]["parallelism"] == 3
