"""Teardown: what a DAG run made goes, and nothing else."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest
from airflow.sdk.bases.operator import ExecutorSafeguard
from tests.cluster import trainings
from tests.cluster.trainings import RUNS_ON, SUCCEED, TaskInstance, defer, jobs_of, operator, pods_of, spec, train
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import ClusterUnavailable, TrainingFailed
from gpu_training.core.naming import run_hash
from gpu_training.operators.clean_up import CleanUpOperator
from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster


def clean_up(namespace: str, instance: TaskInstance) -> list[str]:
    task = CleanUpOperator(task_id="clean_up", namespace=namespace)
    context = contextvars.copy_context()
    context.run(ExecutorSafeguard.tracker.set, task)
    return list(context.run(task.execute, instance.context))


@pytest.mark.case("C073")
@pytest.mark.case("C074")
def test_a_live_job_of_the_run_is_gone_with_its_pods(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    instance = TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), instance).job
    wait_for(lambda: trainings.is_running(sandbox, namespace), 30, "a running container")

    assert clean_up(namespace, instance) == [job["name"]]
    assert jobs_of(sandbox, namespace) == []
    assert pods_of(sandbox, namespace) == []


def test_a_job_that_succeeded_goes_and_one_that_failed_stays(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    instance = TaskInstance()
    with pytest.raises(TrainingFailed):
        train(operator(spec(namespace, "exit 1")), instance)
    train(operator(spec(namespace, SUCCEED)), instance.next_try())
    clean_up(namespace, instance)

    (job,) = jobs_of(sandbox, namespace)
    assert "Failed" in [condition["type"] for condition in job["status"]["conditions"]]


def test_jobs_of_other_runs_stay(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    other = defer(operator(spec(namespace, RUNS_ON)), TaskInstance()).job

    assert clean_up(namespace, TaskInstance()) == []
    assert [job["metadata"]["uid"] for job in jobs_of(sandbox, namespace)] == [other["uid"]]


def test_a_label_alone_is_not_believed(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    mine, other = TaskInstance(), TaskInstance()
    job = defer(operator(spec(namespace, RUNS_ON)), other).job
    label = "gpu-training.io/run"
    wanted = jobs_of(sandbox, namespace)[0]["metadata"]["labels"] | {
        label: run_hash("airflow", mine.dag_id, mine.run_id)
    }
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job['name']}"
    merge = "application/merge-patch+json"
    sandbox.api.request("PATCH", path, {"metadata": {"labels": wanted}}, content_type=merge)

    assert clean_up(namespace, mine) == []
    assert len(jobs_of(sandbox, namespace)) == 1


def test_nothing_to_clean_up_is_fine(namespace: str, connected: FakeMlflow) -> None:
    assert clean_up(namespace, TaskInstance()) == []


@pytest.mark.case("C033")
@pytest.mark.case("C078")
def test_a_pod_that_does_not_end_is_told_and_not_waited_for_without_end(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("gpu_training.operators.clean_up._PATIENCE_S", 1.0)
    grace = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 6}}}}
    instance = TaskInstance()
    defer(operator(spec(namespace, "trap '' TERM; sleep 600 & wait; sleep 600"), full_job_spec=grace), instance)
    wait_for(lambda: trainings.is_running(sandbox, namespace), 30, "a running container")
    clean_up(namespace, instance)

    assert "has not ended 1 s after its Job was deleted" in capsys.readouterr().out


def test_a_cluster_that_is_away_is_retried(namespace: str, proxy: FaultyProxy) -> None:
    proxy.follow(Rule(action=Action.RESET))
    with pytest.raises(ClusterUnavailable, match="kubernetes_gpu"):
        clean_up(namespace, TaskInstance())


NAMES: list[dict[str, Any]] = [
    {"run_id": "manual__2026-11-30T19:00:00.123456+00:00" + "x" * 210},
    {"run_id": "läuft/überall: ja?"},
    {"dag_id": "Group.Sub_Group." + "D" * 200, "task_id": "Train.It_Now"},
    {"dag_id": "train_on_demand__模型"},
    {"map_index": 12345},
]


@pytest.mark.case("C011")
@pytest.mark.case("C085")
@pytest.mark.case("C086")
@pytest.mark.case("C089")
@pytest.mark.parametrize("names", NAMES, ids=["long run", "odd run", "long dotted dag", "unicode dag", "mapped"])
def test_whatever_airflow_names_a_run_its_job_is_made_found_and_removed(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, names: dict[str, Any]
) -> None:
    instance = TaskInstance(**names)
    long_model = "m" * 40
    job = defer(operator(spec(namespace, RUNS_ON, model=long_model)), instance).job
    again = defer(operator(spec(namespace, RUNS_ON, model=long_model)), instance.next_try()).job

    assert again == job
    assert clean_up(namespace, instance) == [job["name"]]
