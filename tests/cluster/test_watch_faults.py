"""The watch survives what happens to connections; a Job is gone only when the API server says so by name and UID."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

from tests.cluster.faulty_proxy import FaultyProxy
from tests.cluster.trainings import (
    SUCCEED,
    TaskInstance,
    defer,
    fire,
    is_running,
    jobs_of,
    operator,
    recorded,
    spec,
)
from tests.fake_mlflow import FakeMlflow

pytestmark = pytest.mark.cluster

RUNS_ON = "echo on it; trap 'exit 85' TERM; sleep 600 & wait"
LONGER = f"sleep 4; {SUCCEED}"


def fire_in_background(trigger: Any) -> tuple[threading.Thread, list[dict[str, Any]]]:
    payloads: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: payloads.append(fire(trigger)))
    thread.start()
    return thread, payloads


@pytest.mark.case("C051")
@pytest.mark.case("C057")
@pytest.mark.case("C075")
@pytest.mark.parametrize("status", [401, 410, 429, 500, 503, 0])
def test_a_training_ends_well_though_the_api_fails_for_a_while(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, status: int
) -> None:
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    proxy.fault = lambda method, target: status
    proxy.cut_streams()
    wait_for(lambda: trigger.record.about("the training goes on"), 30, "a word about the trouble")
    proxy.fault = lambda method, target: None
    thread.join()

    assert payloads[0]["kind"] == "succeeded", payloads
    assert trigger.record.about("the API server answers again")
    assert len(jobs_of(sandbox, namespace)) == 1


@pytest.mark.case("C057")
def test_watches_that_end_all_the_time_cost_nothing(namespace: str, proxy: FaultyProxy) -> None:
    proxy.stream_limit = 2_000  # most events are larger: each is cut in the middle
    payload = fire(defer(operator(spec(namespace, LONGER)), TaskInstance()))

    assert payload["kind"] == "succeeded"


@pytest.mark.case("C052")
def test_a_refused_token_is_read_again_once(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    good = proxy.kubeconfig.read_text()
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    token = good.split("token: ")[1].split()[0]
    proxy.kubeconfig.write_text(good.replace(token, "expired"))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: trigger.record.about("401"), 30, "a word about the refusal")
    proxy.kubeconfig.write_text(good)
    thread.join()

    assert payloads[0]["kind"] == "succeeded", payloads


@pytest.mark.case("C056")
def test_a_job_that_a_list_lacks_is_not_lost(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    # The first watch lists before it knows of any Job, and every look by name fails for a while.
    proxy.fault = lambda method, target: 500 if f"/jobs/{trigger.job['name']}" in target else None
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: trigger.record.about("running"), 30, "the running phase")
    thread.join()

    assert payloads[0]["kind"] == "succeeded", payloads


def test_a_job_that_somebody_deletes_is_lost_and_may_be_retried(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    trigger = recorded(defer(operator(spec(namespace, RUNS_ON)), TaskInstance()))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    sandbox.api.request("DELETE", path, {"propagationPolicy": "Foreground"})
    thread.join()

    assert payloads[0]["kind"] == "lost"
    assert payloads[0]["verdict"]["action"] == "retry"
    assert payloads[0]["attempts"][0]["node"] == "gpu-1"


@pytest.mark.case("C017")
@pytest.mark.case("C019")
def test_a_job_that_ends_and_goes_at_once_is_still_a_success(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job['name']}"
    patch = {"spec": {"ttlSecondsAfterFinished": 0}}
    sandbox.api.request("PATCH", path, patch, content_type="application/merge-patch+json")
    payload = fire(trigger)

    assert payload["kind"] == "succeeded"
    assert payload["result"]["metrics"] == {"mae": 1.5}


@pytest.mark.case("C049")
@pytest.mark.case("C055")
def test_a_trigger_that_starts_after_the_end_fires_at_once(namespace: str, connected: FakeMlflow) -> None:
    trigger = defer(operator(spec(namespace, SUCCEED)), TaskInstance())
    first = fire(trigger)
    again = fire(recorded(trigger))

    assert again["kind"] == "succeeded"
    assert again["attempts"] == first["attempts"]
