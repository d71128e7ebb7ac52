"""What keeps a training from running is said, and ends it only where waiting does not help."""

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
    jobs_of,
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

NEVER = [
    # what is asked for, the phase, the cause, a part of Kubernetes' words
    ({"resources": TWO_GPUS}, "queued", "too_few_gpus", "Insufficient nvidia.com/gpu"),
    ({"image": "no-such-image:1"}, "starting", "image_not_found", "no-such-image"),
    (
        {"secret_environment": {"KEY": {"secret": "absent", "key": "key"}}},
        "starting",
        "secret_missing",
        'secret "absent" not found',
    ),
]


@contextmanager
def waiting(trigger: RecordedTrigger) -> Iterator[list[dict[str, Any]]]:
    payloads: list[dict[str, Any]] = []
    thread = Thread(target=lambda: payloads.append(fire(trigger)))
    thread.start()
    yield payloads
    thread.join()


@pytest.mark.case("C035")
@pytest.mark.case("C046")
@pytest.mark.parametrize(("change", "phase", "cause", "words"), NEVER, ids=["gpu", "image", "secret"])
def test_a_training_that_can_never_run_ends_and_says_why(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    change: dict[str, Any],
    phase: str,
    cause: str,
    words: str,
) -> None:
    trigger = recorded(defer(operator(spec(namespace, SUCCEED, **change)), TaskInstance()))
    payload = fire(trigger)
    assert trigger.record.about(f"{phase} ({cause}): ")
    assert (payload["kind"], payload["verdict"]["category"]) == ("failed", "can_not_start")
    assert words in "\n".join(payload["waiting"])
    assert jobs_of(sandbox, namespace) == []


@pytest.mark.case("C006")
@pytest.mark.case("C044")
def test_a_training_that_is_suspended_waits_and_says_so(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    job = {"spec": {"suspend": True}}
    trigger = recorded(defer(operator(spec(namespace, SUCCEED), full_job_spec=job), TaskInstance()))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    with waiting(trigger) as payloads:
        wait_for(lambda: trigger.record.about("suspended (suspended): "), 30, "why it waits")
        assert payloads == []
        sandbox.api.request("DELETE", path, {"propagationPolicy": "Foreground"})
    assert payloads[0]["kind"] == "lost"


@pytest.mark.case("C087")
def test_what_was_suspended_trains_when_it_is_released(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    job = {"spec": {"suspend": True}}
    trigger = recorded(defer(operator(spec(namespace, SUCCEED), full_job_spec=job), TaskInstance()))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    with waiting(trigger) as payloads:
        wait_for(lambda: trigger.record.about("suspended"), 30, "the suspended phase")
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
