"""What people have met in public shows in the stock KubernetesJobOperator 10.25: `make cases STOCK=1`.

Each test asserts the fault. One that fails tells that the fault is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kubernetes import client as k8s
from kubernetes.client.exceptions import ApiException
from kubernetes_asyncio.client.exceptions import ApiException as AsyncApiException
from tests.stock.stock_jobs import (
    CONTAINER_SECURITY,
    IMAGE,
    RUNS_ON,
    SUCCEED,
    Background,
    TaskInstance,
    await_base_end,
    await_end,
    await_running,
    defer,
    deferral,
    end_by_deadline,
    evict,
    execute,
    fire,
    jobs_of,
    operator,
    pods_of,
    running,
    start_pod,
    train,
)

from sandbox.cluster import Sandbox
from sandbox.faults.pods import fail_container
from sandbox.faults.programs import pause_program, resume_program
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule
from sandbox.testing import wait_for

pytestmark = [pytest.mark.stock, pytest.mark.usefixtures("connected")]

CONTROLLERS = "kube-controller-manager"
FEW = 20
"""Looks for pods where there is one that it takes for its own from the start."""


@pytest.fixture
def no_controllers(sandbox: Sandbox) -> Iterator[None]:
    """Pause the controller manager until the test is over, or goes on with it."""
    pause_program(sandbox, CONTROLLERS)
    yield
    resume_program(sandbox, CONTROLLERS)


def once(folder: Path, first: str, then: str = SUCCEED) -> str:
    """Give a script that does one thing when it runs first, and another one after that."""
    folder.chmod(0o777)
    return f"if test -e {folder}/tried; then {then}; else touch {folder}/tried; {first}; fi"


# Identity: duplicate work, retry, reattach


@pytest.mark.case("C002")
@pytest.mark.case("C006")
@pytest.mark.parametrize("deferrable", [True, False])
def test_a_job_without_a_pod_is_a_failure_and_then_trains_unwatched(
    sandbox: Sandbox, namespace: str, no_controllers: None, deferrable: bool
) -> None:
    task = operator(namespace, SUCCEED, deferrable=deferrable, discover_pods_retry_number=3)
    with pytest.raises(AirflowException, match="No pods running"):
        execute(task, TaskInstance())

    resume_program(sandbox, CONTROLLERS)
    await_end(sandbox, namespace, "Complete")


@pytest.mark.case("C006")
@pytest.mark.case("C044")
def test_a_suspended_job_is_a_failure(sandbox: Sandbox, namespace: str) -> None:
    with pytest.raises(AirflowException, match="No pods running"):
        execute(operator(namespace, SUCCEED, suspend=True), TaskInstance())

    assert len(jobs_of(sandbox, namespace)) == 1


@pytest.mark.case("C001")
@pytest.mark.case("C003")
def test_a_pod_that_the_job_does_not_own_is_taken_for_its_own_and_deleted(sandbox: Sandbox, namespace: str) -> None:
    instance = TaskInstance()
    labels = operator(namespace, SUCCEED)._get_ti_pod_labels(instance.context)
    start_pod(sandbox, namespace, "stranger", labels)
    await_running(sandbox, namespace)
    train(operator(namespace, SUCCEED, discover_pods_retry_number=FEW), instance)

    assert "stranger" not in [
        pod["metadata"]["name"] for pod in pods_of(sandbox, namespace) if "deletionTimestamp" not in pod["metadata"]
    ]


@pytest.mark.case("C004")
def test_a_worker_that_goes_away_deletes_the_job(sandbox: Sandbox, namespace: str) -> None:
    task = operator(namespace, RUNS_ON, deferrable=False)

    class WorkerGone(Exception):
        pass

    def end(*_: object) -> None:
        # As the task runner obeys SIGTERM, whoever sends it.
        task.on_kill()
        raise WorkerGone

    def send() -> None:
        await_running(sandbox, namespace)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(WorkerGone):
            execute(task, TaskInstance())
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)
    wait_for(lambda: not jobs_of(sandbox, namespace), 30, "the end of the Job")


@pytest.mark.case("C005")
def test_a_retry_after_a_crash_trains_a_second_time_beside_the_first(sandbox: Sandbox, namespace: str) -> None:
    first = TaskInstance()
    defer(operator(namespace, RUNS_ON), first)  # its worker is gone: no trigger was ever made of it
    defer(operator(namespace, RUNS_ON), first.next_try())

    await_running(sandbox, namespace, 2)
    assert len(jobs_of(sandbox, namespace)) == 2


@pytest.mark.case("C055")
def test_a_retry_trains_again_what_is_done(sandbox: Sandbox, namespace: str) -> None:
    first = TaskInstance()
    fire(defer(operator(namespace, SUCCEED), first))  # the worker that should resume dies
    train(operator(namespace, SUCCEED, discover_pods_retry_number=FEW), first.next_try())

    assert [job["status"]["succeeded"] for job in jobs_of(sandbox, namespace)] == [1, 1]


@pytest.mark.case("C007")
def test_a_retry_takes_an_earlier_job_s_pod_for_its_own(sandbox: Sandbox, namespace: str) -> None:
    first = TaskInstance()
    old = defer(operator(namespace, "exit 1"), first)
    fire(old)  # the worker that should resume dies
    new = defer(operator(namespace, SUCCEED, discover_pods_retry_number=FEW), first.next_try())

    assert set(old.pod_names) & set(new.pod_names)


@pytest.mark.case("C008")
def test_a_retry_fails_over_the_log_of_an_earlier_job_s_pod_that_never_began(sandbox: Sandbox, namespace: str) -> None:
    first = TaskInstance()
    defer(operator(namespace, SUCCEED, image="no-such-image:1"), first)
    with pytest.raises(ApiException) as failure:
        train(operator(namespace, SUCCEED, discover_pods_retry_number=FEW), first.next_try())

    assert failure.value.status == 400
    assert {job["status"].get("succeeded") for job in jobs_of(sandbox, namespace)} == {None, 1}


@pytest.mark.case("C013")
def test_a_replacement_trains_while_its_predecessor_still_does(
    sandbox: Sandbox, namespace: str, tmp_path: Path
) -> None:
    script = once(tmp_path, "trap '' TERM; sleep 600", RUNS_ON)
    defer(operator(namespace, script, backoff_limit=2, termination_grace_period=25), TaskInstance())
    (first,) = await_running(sandbox, namespace)
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{first}")

    assert first in await_running(sandbox, namespace, 2)


# Waiting, failure and pod churn


@pytest.mark.case("C014")
def test_the_pod_that_succeeds_is_never_looked_at(sandbox: Sandbox, namespace: str, tmp_path: Path) -> None:
    task = operator(namespace, once(tmp_path, "echo first; exit 1", "echo second"), backoff_limit=1)
    train(task, TaskInstance())

    assert [line for line in task.lines if "logs: first" in line]
    assert not [line for line in task.lines if "logs: second" in line]


@pytest.mark.case("C017")
def test_a_pod_that_goes_after_the_end_undoes_the_success(sandbox: Sandbox, namespace: str) -> None:
    task = operator(namespace, SUCCEED, deferrable=False, job_poll_interval=6)
    waiting = Background(lambda: execute(task, TaskInstance()))
    wait_for(lambda: jobs_of(sandbox, namespace), 30, "the Job")
    await_end(sandbox, namespace, "Complete")
    (pod,) = pods_of(sandbox, namespace)
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}")

    outcome = waiting.outcome()
    assert isinstance(outcome, ApiException), outcome
    assert outcome.status == 404


@pytest.mark.case("C019")
def test_a_success_that_is_removed_at_once_is_a_failure(namespace: str) -> None:
    trigger = defer(operator(namespace, "sleep 1", ttl_seconds_after_finished=0, job_poll_interval=5), TaskInstance())
    with pytest.raises(AsyncApiException) as failure:
        fire(trigger)

    assert failure.value.status == 404


@pytest.mark.case("C026")
def test_a_spot_reclaim_fails_the_task(sandbox: Sandbox, namespace: str) -> None:
    trigger = defer(operator(namespace, RUNS_ON), TaskInstance())
    (pod,) = await_running(sandbox, namespace)
    evict(sandbox, namespace, pod)

    assert fire(trigger)["status"] == "error"


@pytest.mark.case("C025")
@pytest.mark.case("C027")
def test_reclaims_spend_the_tries_of_the_training_and_nothing_says_when_the_next_pod_is_due(
    sandbox: Sandbox, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trigger = defer(operator(namespace, RUNS_ON, backoff_limit=1), TaskInstance())
    capsys.readouterr()
    waiting = Background(lambda: fire(trigger))
    for _ in range(2):
        (pod,) = await_running(sandbox, namespace)
        evict(sandbox, namespace, pod)
        wait_for(lambda pod=pod: pod not in running(sandbox, namespace), 30, "the end of the pod")  # type: ignore[misc]

    assert "BackoffLimitExceeded" in waiting.outcome()["message"]
    said = [line for line in capsys.readouterr().out.splitlines() if trigger.job_name in line]
    assert said
    assert not [line for line in said if not re.search("Requesting status|is incomplete. Sleeping|state: Failed", line)]


@pytest.mark.case("C030")
def test_a_condition_that_does_not_hold_ends_the_wait(sandbox: Sandbox, namespace: str) -> None:
    trigger = defer(operator(namespace, RUNS_ON), TaskInstance())
    await_running(sandbox, namespace)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{trigger.job_name}/status"
    condition = {"type": "Failed", "status": "False", "reason": "NotAtAll"}
    body = {"status": {"conditions": [condition]}}
    sandbox.api.request("PATCH", path, body, content_type="application/strategic-merge-patch+json")

    assert "NotAtAll" in fire(trigger)["message"]
    assert running(sandbox, namespace)


@pytest.mark.case("C034")
def test_a_pod_s_time_limit_is_the_job_s_over_all_its_pods(sandbox: Sandbox, namespace: str, tmp_path: Path) -> None:
    script = once(tmp_path, "echo first; exit 1")
    task, instance = operator(namespace, script, backoff_limit=3, active_deadline_seconds=5), TaskInstance()
    with pytest.raises(AirflowException, match="DeadlineExceeded"):
        train(task, instance)  # each of its pods took less than a second

    assert not [line for line in task.lines if "logs: first" in line]


# Deferrable mode, triggerer, tokens, API faults


@pytest.mark.case("C047")
def test_ending_a_deferred_task_leaves_its_job(sandbox: Sandbox, namespace: str) -> None:
    trigger = defer(operator(namespace, RUNS_ON), TaskInstance())
    await_running(sandbox, namespace)
    asyncio.run(trigger.on_kill())

    (job,) = jobs_of(sandbox, namespace)
    assert "deletionTimestamp" not in job["metadata"]
    assert running(sandbox, namespace)


@pytest.mark.case("C050")
def test_a_task_s_time_limit_does_not_count_while_it_is_deferred(namespace: str) -> None:
    task = operator(namespace, "sleep 4", execution_timeout=timedelta(seconds=1))
    deferred = deferral(task, TaskInstance())

    assert deferred.timeout is None
    assert fire(deferred.trigger)["status"] == "success"


@pytest.mark.parametrize(
    "status", [pytest.param(401, marks=pytest.mark.case("C052")), pytest.param(404, marks=pytest.mark.case("C056"))]
)
def test_one_refusal_ends_the_wait_for_a_job_that_runs(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, status: int
) -> None:
    trigger = defer(operator(namespace, RUNS_ON), TaskInstance())
    await_running(sandbox, namespace)
    proxy.follow(Rule(action=Action.ANSWER, status=status, count=1))
    with pytest.raises(AsyncApiException) as failure:
        fire(trigger)

    assert failure.value.status == status
    assert running(sandbox, namespace)


@pytest.mark.case("C051")
def test_an_api_server_that_is_away_for_half_a_minute_ends_the_wait_for_a_job_that_runs(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    trigger = defer(operator(namespace, RUNS_ON), TaskInstance())
    await_running(sandbox, namespace)
    proxy.follow(Rule(action=Action.ANSWER, status=503))
    with pytest.raises(AsyncApiException) as failure:
        fire(trigger)

    assert failure.value.status == 503
    assert running(sandbox, namespace)


# Kill and cleanup


@pytest.mark.case("C074")
@pytest.mark.case("C075")
def test_trouble_while_waiting_deletes_the_pod_and_the_job_makes_another(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    task = operator(namespace, RUNS_ON, deferrable=False, backoff_limit=2)
    waiting = Background(lambda: execute(task, TaskInstance()))
    (first,) = await_running(sandbox, namespace)
    proxy.follow(Rule(action=Action.ANSWER, status=401, path="/jobs/", count=1))

    assert isinstance(waiting.outcome(), ApiException)
    wait_for(lambda: set(running(sandbox, namespace)) - {first}, 60, "another pod of a task that has failed")


@pytest.mark.case("C076")
def test_a_kill_while_the_job_is_being_created_leaves_it(sandbox: Sandbox, namespace: str, proxy: FaultyProxy) -> None:
    task = operator(namespace, RUNS_ON)
    proxy.follow(Rule(action=Action.STALL, method="POST", path="/jobs", after_bytes=0, count=1))

    class Ended(Exception):
        pass

    def end(*_: object) -> None:
        task.on_kill()
        raise Ended

    def send() -> None:
        await_running(sandbox, namespace)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Ended):
            execute(task, TaskInstance())
    finally:
        sender.join()
        signal.signal(signal.SIGTERM, before)
    (job,) = jobs_of(sandbox, namespace)
    assert "deletionTimestamp" not in job["metadata"]


# XCom / result hand-off


@pytest.fixture
def sidecar(connected: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the parameters with which the operator's sidecar runs in the sandbox."""
    connection = json.loads(os.environ["AIRFLOW_CONN_KUBERNETES_GPU"])
    connection["extra"]["xcom_sidecar_container_image"] = IMAGE
    monkeypatch.setenv("AIRFLOW_CONN_KUBERNETES_GPU", json.dumps(connection))
    return {"do_xcom_push": True, "xcom_sidecar_container_security_context": CONTAINER_SECURITY}


@pytest.mark.case("C079")
def test_a_training_that_fails_holds_its_pod_until_somebody_ends_the_sidecar(
    sandbox: Sandbox, namespace: str, sidecar: dict[str, Any]
) -> None:
    defer(operator(namespace, "exit 1", **sidecar), TaskInstance())  # and its triggerer is away

    assert await_base_end(sandbox, namespace, 1) == "Running"
    assert end_by_deadline(sandbox, namespace) == "DeadlineExceeded"


@pytest.mark.case("C080")
def test_a_result_is_thrown_away_and_the_job_goes_on_where_exec_is_refused(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, sidecar: dict[str, Any]
) -> None:
    trigger = defer(operator(namespace, "echo 1 > /airflow/xcom/return.json", **sidecar), TaskInstance())
    proxy.follow(Rule(action=Action.ANSWER, status=403, path="/exec"))

    # Of whatever kind: the client stumbles over the refusal itself.
    assert isinstance(Background(lambda: fire(trigger)).outcome(), Exception)
    assert proxy.asked("/exec")
    assert await_base_end(sandbox, namespace, 0) == "Running"
    assert end_by_deadline(sandbox, namespace) == "DeadlineExceeded"


@pytest.mark.case("C081")
def test_after_an_eviction_nobody_ends_the_sidecar_of_the_pod_that_trains(
    sandbox: Sandbox, namespace: str, sidecar: dict[str, Any], tmp_path: Path
) -> None:
    task = operator(namespace, once(tmp_path, RUNS_ON), backoff_limit=1, **sidecar)
    trigger = defer(task, TaskInstance())
    await_running(sandbox, namespace)
    (pod,) = pods_of(sandbox, namespace)
    waiting = Background(lambda: fire(trigger))
    wait_for((tmp_path / "tried").exists, 30, "the first attempt")
    evict(sandbox, namespace, pod["metadata"]["name"])

    assert isinstance(waiting.outcome(), Exception)
    assert await_base_end(sandbox, namespace, 0) == "Running"
    assert end_by_deadline(sandbox, namespace) == "DeadlineExceeded"


# Spec building, names, templates


@pytest.mark.case("C085")
@pytest.mark.parametrize("changes", [{"random_name_suffix": False}, {"completion_mode": "Indexed", "completions": 1}])
def test_a_long_name_is_refused(namespace: str, changes: dict[str, Any]) -> None:
    task = operator(namespace, SUCCEED, name="a" * 100, **changes)
    with pytest.raises(ApiException) as failure:
        execute(task, TaskInstance())

    assert failure.value.status == 422


@pytest.mark.case("C087")
def test_an_explicit_zero_or_false_loses_and_what_nobody_said_wins(sandbox: Sandbox, namespace: str) -> None:
    container = k8s.V1Container(name="base")
    template = k8s.V1PodTemplateSpec(spec=k8s.V1PodSpec(containers=[container]))
    job = k8s.V1Job(spec=k8s.V1JobSpec(parallelism=4, backoff_limit=3, suspend=True, template=template))
    with pytest.raises(AirflowException, match="No pods running"):
        execute(operator(namespace, SUCCEED, full_job_spec=job, backoff_limit=0, suspend=False), TaskInstance())

    (made,) = jobs_of(sandbox, namespace)
    assert (made["spec"]["parallelism"], made["spec"]["backoffLimit"], made["spec"]["suspend"]) == (1, 3, True)


@pytest.mark.case("C088")
def test_templates_in_a_job_are_not_rendered(sandbox: Sandbox, namespace: str) -> None:
    container = k8s.V1Container(name="base", env=[k8s.V1EnvVar(name="DAY", value="{{ ds }}")])
    template = k8s.V1PodTemplateSpec(spec=k8s.V1PodSpec(containers=[container]))
    task = operator(namespace, SUCCEED, full_job_spec=k8s.V1Job(spec=k8s.V1JobSpec(template=template)))
    task.render_template_fields({"ds": "2026-01-02"})
    defer(task, TaskInstance())

    (made,) = jobs_of(sandbox, namespace)
    assert {"name": "DAY", "value": "{{ ds }}"} in made["spec"]["template"]["spec"]["containers"][0]["env"]


@pytest.mark.case("C091")
def test_a_create_whose_answer_was_lost_fails_and_the_job_trains_unwatched(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy
) -> None:
    proxy.follow(Rule(action=Action.LOSE_REPLY, method="POST", path="/jobs", count=1))
    with pytest.raises(ApiException) as failure:
        execute(operator(namespace, SUCCEED), TaskInstance())

    assert failure.value.status == 409
    await_end(sandbox, namespace, "Complete")


# Of the other themes, what costs nothing beside these


@pytest.mark.case("C059")
def test_a_failure_is_told_without_a_line_of_its_log(namespace: str) -> None:
    task = operator(namespace, "echo boom; exit 1")
    with pytest.raises(AirflowException, match="BackoffLimitExceeded"):
        train(task, TaskInstance())

    assert not [line for line in task.lines if "logs: " in line]


@pytest.mark.case("C060")
def test_no_line_is_told_while_the_training_runs(namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    task, instance = operator(namespace, "echo early; sleep 2"), TaskInstance()
    event = fire(defer(task, instance))

    assert "early" not in capsys.readouterr().out
    assert not [line for line in task.lines if "logs: early" in line]
    task.execute_complete(instance.context, event)
    assert [line for line in task.lines if "logs: early" in line]


@pytest.mark.case("C071")
def test_nothing_is_told_of_an_init_container_that_fails(namespace: str) -> None:
    init = k8s.V1Container(
        name="download", image=IMAGE, command=["sh", "-c", "echo no such bucket; exit 3"],
        security_context=CONTAINER_SECURITY,
    )  # fmt: skip
    task = operator(namespace, SUCCEED, init_containers=[init])
    with pytest.raises(AirflowException, match="BackoffLimitExceeded") as failure:
        train(task, TaskInstance())

    assert "download" not in str(failure.value)
    assert not [line for line in task.lines if "logs: no such bucket" in line]


@pytest.mark.case("C070")
def test_a_failure_does_not_name_its_reason(sandbox: Sandbox, namespace: str) -> None:
    task, instance = operator(namespace, RUNS_ON), TaskInstance()
    trigger = defer(task, instance)
    (pod,) = await_running(sandbox, namespace)
    fail_container(sandbox, namespace, pod, reason="OOMKilled")
    with pytest.raises(AirflowException) as failure:
        task.execute_complete(instance.context, fire(trigger))

    assert "BackoffLimitExceeded" in str(failure.value)
    assert "OOM" not in str(failure.value)


@pytest.mark.case("C084")
def test_the_whole_job_with_its_environment_becomes_an_xcom(namespace: str) -> None:
    task, instance = operator(namespace, SUCCEED, env_vars={"PASSWORD": "open sesame"}), TaskInstance()
    train(task, instance)

    assert "open sesame" in repr(instance.xcoms["job"])
