"""The watch survives what happens to connections; a Job is gone only when the API server says so by name and UID."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import yaml
from tests.cluster.trainings import (
    RUNS_ON,
    SUCCEED,
    RecordedTrigger,
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

from gpu_training.core.errors import TrainingFailed
from gpu_training.operators.outcomes import TrainingFailedForGood
from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule, Stream
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

LONGER = f"sleep 4; {SUCCEED}"


def fire_in_background(trigger: Any) -> tuple[threading.Thread, list[dict[str, Any]]]:
    payloads: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: payloads.append(fire(trigger)))
    thread.start()
    return thread, payloads


TROUBLES = {
    **{str(status): Rule(action=Action.ANSWER, status=status) for status in (401, 410, 429, 500, 503)},
    "reset": Rule(action=Action.RESET),
}


@pytest.mark.case("C051")
@pytest.mark.case("C057")
@pytest.mark.case("C075")
@pytest.mark.parametrize("rule", TROUBLES.values(), ids=TROUBLES.keys())
def test_a_training_ends_well_though_the_api_fails_for_a_while(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, rule: Rule
) -> None:
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    proxy.follow(rule)
    proxy.cut_streams()
    wait_for(lambda: trigger.record.about("the training goes on"), 30, "a word about the trouble")
    proxy.follow()
    thread.join()

    assert payloads[0]["kind"] == "succeeded", payloads
    assert trigger.record.about("the API server answers again")
    assert len(jobs_of(sandbox, namespace)) == 1


ENDLESS = {
    "cut in the middle of events": Rule(action=Action.CUT, stream=Stream.WATCH, after_bytes=2_000),
    "cut every second": Rule(action=Action.CUT, stream=Stream.WATCH, after_s=1),
    "expired versions": Rule(action=Action.EXPIRE, count=5),
    "silence": Rule(action=Action.STALL, stream=Stream.WATCH, after_bytes=0),
}


@pytest.mark.case("C057")
@pytest.mark.parametrize("rule", ENDLESS.values(), ids=ENDLESS.keys())
def test_watches_that_break_all_the_time_lose_nothing(
    namespace: str, proxy: FaultyProxy, rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.cluster.reflector.SILENCE_S", 2.0)
    proxy.follow(rule)
    payload = fire(defer(operator(spec(namespace, LONGER)), TaskInstance()))

    assert payload["kind"] == "succeeded"


@pytest.mark.case("C052")
def test_a_refused_token_is_read_again_once(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    good = proxy.kubeconfig.read_text()
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    expired = yaml.safe_load(good)
    expired["users"][0]["user"]["token"] = "expired"
    proxy.kubeconfig.write_text(yaml.safe_dump(expired))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: trigger.record.about("401"), 30, "a word about the refusal")
    proxy.kubeconfig.write_text(good)
    thread.join()

    assert payloads[0]["kind"] == "succeeded", payloads


@pytest.mark.case("C056")
def test_a_job_that_a_list_lacks_is_not_lost(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    trigger = recorded(defer(operator(spec(namespace, LONGER)), TaskInstance()))
    # The first watch lists before it knows of any Job, and every look by name fails for a while.
    proxy.follow(Rule(action=Action.ANSWER, status=500, path=f"/jobs/{trigger.job['name']}"))
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


def impatient(trigger: Any) -> RecordedTrigger:
    return RecordedTrigger(**{**trigger.serialize()[1], "contact_limit_seconds": 3})


def test_the_job_s_deadline_bounds_the_time_without_contact(namespace: str, connected: FakeMlflow) -> None:
    trigger = defer(operator(spec(namespace, RUNS_ON, deadline_seconds=321)), TaskInstance())

    assert trigger.contact_limit_seconds == 321


def test_a_training_that_can_not_be_looked_at_any_more_is_given_up_and_left_alone(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, connected: FakeMlflow
) -> None:
    task, instance = operator(spec(namespace, RUNS_ON)), TaskInstance()
    trigger = impatient(defer(task, instance))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    proxy.follow(Rule(action=Action.ANSWER, status=403))
    proxy.cut_streams()
    thread.join()

    assert payloads[0]["kind"] == "lost"
    assert payloads[0]["verdict"]["category"] == "unreachable"
    assert "403" in payloads[0]["verdict"]["summary"]
    with pytest.raises(TrainingFailed, match="no contact with the Job for") as failure:
        task.execute_complete(instance.context, payloads[0])
    assert not isinstance(failure.value, TrainingFailedForGood)
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "RUNNING"

    proxy.follow()
    again = defer(operator(spec(namespace, RUNS_ON)), instance.next_try())
    assert again.job == trigger.job


def test_a_job_that_the_list_lacks_and_that_can_not_be_read_is_given_up(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    trigger = impatient(defer(operator(spec(namespace, RUNS_ON)), TaskInstance()))
    name = trigger.job["name"]
    proxy.follow(Rule(action=Action.ANSWER, status=403, method="GET", path=f"/jobs/{name}"))
    thread, payloads = fire_in_background(trigger)
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    sandbox.api.request("DELETE", path, {"propagationPolicy": "Foreground"})
    thread.join()

    assert payloads[0]["verdict"]["category"] == "unreachable"


def test_a_training_whose_pods_can_not_be_looked_at_is_waited_for(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    trigger = impatient(defer(operator(spec(namespace, f"sleep 8; {SUCCEED}"), result_required=False), TaskInstance()))
    proxy.follow(Rule(action=Action.ANSWER, status=403, path="/pods"))

    assert fire(trigger)["kind"] == "succeeded"


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
