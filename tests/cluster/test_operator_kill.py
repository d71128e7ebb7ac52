"""Killing a task: who ends a training, and who only ends a process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowRescheduleException,
    AirflowTaskTimeout,
    TaskDeferralTimeout,
)
from tests.cluster import trainings
from tests.cluster.trainings import RUNS_ON, TaskInstance, defer, is_running, jobs_of, operator, pods_of, spec
from tests.fake_mlflow import FakeMlflow
from tests.fake_supervisor import airflow_says

from gpu_training.triggers.training import TrainingJobTrigger
from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

ENDED = ["failed", "success", "skipped", "removed"]
GOES_ON = ["deferred", "running", "queued", "scheduled", "restarting", "up_for_retry", None]


def kill(trigger: TrainingJobTrigger) -> None:
    """Call on_kill as the triggerer does, with its limit."""
    asyncio.run(asyncio.wait_for(trigger.on_kill(), 30))


def is_gone(sandbox: Sandbox, namespace: str) -> bool:
    return not jobs_of(sandbox, namespace) and not pods_of(sandbox, namespace)


@pytest.mark.case("C047")
@pytest.mark.case("C072")
@pytest.mark.case("C073")
def test_ending_a_deferred_task_deletes_job_and_pods(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    trigger = defer(operator(spec(namespace, RUNS_ON)), TaskInstance())
    wait_for(lambda: is_running(sandbox, namespace), 30, "a running container")
    with airflow_says("failed"):
        kill(trigger)

    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "KILLED"


@pytest.mark.case("C047")
@pytest.mark.case("C072")
def test_a_kill_that_airflow_cancels_again_and_again_deletes_the_job_nevertheless(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    """Airflow's triggerer cancels what it ends at every sync until that has ended, also in the middle of on_kill."""
    trigger = defer(operator(spec(namespace, RUNS_ON)), TaskInstance())

    async def killed() -> None:
        task = asyncio.create_task(trigger.on_kill())
        while not task.done():
            await asyncio.wait({task}, timeout=0.01)
            task.cancel()
        task.result()

    with airflow_says("failed"):
        asyncio.run(asyncio.wait_for(killed(), 30))
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")


@pytest.mark.case("C048")
@pytest.mark.case("C074")
def test_a_trigger_that_is_killed_leaves_the_job_unless_the_task_has_ended(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    trigger = defer(operator(spec(namespace, RUNS_ON)), TaskInstance())
    (before,) = jobs_of(sandbox, namespace)
    for state in GOES_ON:
        with airflow_says(state):
            kill(trigger)
        (job,) = jobs_of(sandbox, namespace)
        assert job["metadata"]["uid"] == before["metadata"]["uid"], state
        assert "deletionTimestamp" not in job["metadata"], state
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "RUNNING"


@pytest.mark.case("C047")
def test_a_late_kill_of_an_earlier_try_leaves_the_job_that_the_next_try_adopted(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    task, first = operator(spec(namespace, RUNS_ON)), TaskInstance()
    trigger = defer(task, first)
    second = defer(operator(spec(namespace, RUNS_ON)), first.next_try())
    assert second.job == trigger.job
    with airflow_says("failed"):
        kill(trigger)
    (job,) = jobs_of(sandbox, namespace)
    assert "deletionTimestamp" not in job["metadata"]

    with airflow_says("failed"):
        kill(second)
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")


def test_a_trigger_that_has_fired_deletes_nothing(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    trigger = defer(operator(spec(namespace, trainings.SUCCEED)), TaskInstance())
    trainings.fire(trigger)
    with airflow_says("success"):
        kill(trigger)

    assert len(jobs_of(sandbox, namespace)) == 1


def test_a_job_of_the_same_name_made_later_is_left_alone(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    task, instance = operator(spec(namespace, RUNS_ON)), TaskInstance()
    trigger = defer(task, instance)
    with airflow_says("failed"):
        kill(trigger)
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")
    ledger = f"/api/v1/namespaces/{namespace}/configmaps/{instance.xcoms['job']['ledger']}"
    sandbox.api.request("DELETE", ledger)  # names begin anew without it
    again = defer(operator(spec(namespace, RUNS_ON)), instance)
    assert again.job["name"] == trigger.job["name"]
    with airflow_says("failed"):
        kill(trigger)

    (job,) = jobs_of(sandbox, namespace)
    assert "deletionTimestamp" not in job["metadata"]


def execute_and_kill(task: Any, instance: TaskInstance, ready: Any) -> BaseException | None:
    """Run execute() here, as the task runner does in the main thread, and send SIGTERM once it is ready."""

    def handle(*_: object) -> None:
        task.on_kill()

    def send() -> None:
        wait_for(ready, 60, "the moment for SIGTERM")
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, handle)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        trainings.execute(task, instance)
    except BaseException as exc:
        return exc
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)
    return None


@pytest.mark.case("C072")
@pytest.mark.case("C077")
@pytest.mark.parametrize("state", ["failed", "removed"])
def test_ending_a_task_that_waits_on_its_worker_deletes_job_and_pods(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, state: str
) -> None:
    task, instance = operator(spec(namespace, RUNS_ON), deferrable=False), TaskInstance()
    with airflow_says(state):
        raised = execute_and_kill(task, instance, lambda: is_running(sandbox, namespace))

    assert isinstance(raised, AirflowException)
    assert not isinstance(raised, AirflowRescheduleException)
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "KILLED"


@pytest.mark.case("C004")
def test_a_worker_that_goes_away_leaves_the_job_to_the_next_one(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    script = f"echo on it; sleep 4; {trainings.SUCCEED}"
    task, instance = operator(spec(namespace, script), deferrable=False), TaskInstance()
    with airflow_says("running"):
        raised = execute_and_kill(task, instance, lambda: is_running(sandbox, namespace))
    assert isinstance(raised, AirflowRescheduleException)

    result = trainings.execute(operator(spec(namespace, script), deferrable=False), instance)
    (job,) = jobs_of(sandbox, namespace)
    assert result["job_uid"] == job["metadata"]["uid"] == instance.xcoms["job"]["job_uid"]
    assert result["attempts"] == 1


@pytest.mark.case("C004")
@pytest.mark.case("C055")
def test_a_job_that_ended_while_its_try_had_no_worker_is_not_trained_again(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    script = f"echo on it; sleep 3; {trainings.SUCCEED}"
    task, instance = operator(spec(namespace, script), deferrable=False), TaskInstance()
    with airflow_says("running"):
        execute_and_kill(task, instance, lambda: is_running(sandbox, namespace))
    wait_for(lambda: jobs_of(sandbox, namespace)[0]["status"].get("succeeded"), 30, "the end of the Job")

    result = trainings.execute(operator(spec(namespace, script), deferrable=False), instance)
    (job,) = jobs_of(sandbox, namespace)
    assert result["job_uid"] == job["metadata"]["uid"]


@pytest.mark.case("C076")
def test_a_kill_before_there_is_a_pod_leaves_no_job(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    task, instance = operator(spec(namespace, RUNS_ON), deferrable=False), TaskInstance()
    with airflow_says("failed"):
        raised = execute_and_kill(task, instance, lambda: jobs_of(sandbox, namespace))

    assert isinstance(raised, AirflowException)
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")


@pytest.mark.case("C076")
def test_a_kill_while_the_job_is_being_created_leaves_no_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    task, instance = operator(spec(namespace, RUNS_ON)), TaskInstance()
    with airflow_says("failed"):
        # The run is made right before the Job is.
        raised = execute_and_kill(task, instance, lambda: connected.runs)

    assert raised is not None
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")


@pytest.mark.case("C040")
def test_the_time_out_of_a_task_that_waits_on_its_worker_deletes_its_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    task = operator(spec(namespace, RUNS_ON), deferrable=False)

    def time_out(*_: object) -> None:
        raise AirflowTaskTimeout("4 s")

    def execute() -> None:
        # As the task runner keeps an execution_timeout.
        signal.setitimer(signal.ITIMER_REAL, 4)
        try:
            trainings.execute(task, TaskInstance())
        except AirflowTaskTimeout:
            task.on_kill()
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, time_out)
    try:
        with airflow_says("running"), pytest.raises(AirflowTaskTimeout):
            execute()
    finally:
        signal.signal(signal.SIGALRM, before)
    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")


@pytest.mark.case("C040")
@pytest.mark.case("C050")
def test_the_time_out_of_a_deferred_task_deletes_its_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    task, instance = operator(spec(namespace, RUNS_ON)), TaskInstance()
    defer(task, instance)
    resumed = operator(spec(namespace, RUNS_ON))
    with pytest.raises(TaskDeferralTimeout):
        resumed.resume_execution("__fail__", {"error": "Trigger timeout"}, instance.context)

    wait_for(lambda: is_gone(sandbox, namespace), 60, "the end of Job and pods")
