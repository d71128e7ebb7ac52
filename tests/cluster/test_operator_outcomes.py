"""How trainings end on a real control plane, and what the task makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.cluster import trainings
from tests.cluster.trainings import SUCCEED, TaskInstance, operator, spec, train
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import TrainingFailed
from gpu_training.core.orders import ADMISSION_SLACK
from gpu_training.operators.outcomes import TrainingFailedForGood
from sandbox.cluster import Sandbox
from sandbox.manifests import NAMESPACE
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster


@pytest.mark.case("C084")
@pytest.mark.parametrize("deferrable", [True, False])
def test_a_training_that_succeeds_gives_a_small_result(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, deferrable: bool
) -> None:
    task, instance = operator(spec(namespace, SUCCEED), deferrable=deferrable), TaskInstance()
    result = train(task, instance) if deferrable else trainings.execute(task, instance)

    (job,) = trainings.jobs_of(sandbox, namespace)
    assert result["job"] == job["metadata"]["name"]
    assert result["job_uid"] == job["metadata"]["uid"]
    assert result["metrics"] == {"mae": 1.5}
    assert result["attempts"] == 1
    assert result["node_names"] == ["gpu-1"]
    assert result["registered_model"] == "shell"
    assert result["dag_run"] == instance.run_id
    assert result["mlflow_run_id"] in connected.runs
    assert instance.xcoms["job"]["job_uid"] == result["job_uid"]
    assert len(json.dumps([result, instance.xcoms])) < 4096
    assert "env" not in json.dumps([result, instance.xcoms])


def test_the_job_has_what_the_spec_says(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    train(operator(spec(namespace, SUCCEED, arguments={"rounds": 3}, environment={"LEVEL": "high"})), TaskInstance())

    (job,) = trainings.jobs_of(sandbox, namespace)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert container["args"] == ["--data-version=2013-w01", "--rounds=3"]
    assert variables["DATA_VERSION"] == "2013-w01"
    assert variables["MLFLOW_TRACKING_URI"] == connected.uri
    assert variables["MLFLOW_RUN_ID"] in connected.runs
    assert variables["LEVEL"] == "high"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert container["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert job["spec"]["activeDeadlineSeconds"] == 120
    assert job["spec"]["backoffLimit"] == 0 + ADMISSION_SLACK
    assert job["spec"]["ttlSecondsAfterFinished"] == 600
    assert job["spec"]["podReplacementPolicy"] == "Failed"
    assert pod["restartPolicy"] == "Never"
    assert pod["serviceAccountName"] == "training"
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]


FAILURES = [
    # what the program does, the class of the exception, whether Airflow may retry, what the message tells
    ("exit 1", "application_error", True, "exited with 1"),
    ("exit 80", "bad_configuration", False, "exited with 80"),
    ("exit 81", "bad_data", False, "exited with 81"),
    ("exit 82", "cuda_out_of_memory", False, "exited with 82"),
    ("exit 83", "nan_loss", False, "exited with 83"),
    ("exit 84", "communication_timeout", True, "exited with 84"),
    ("exit 85", "interrupted", True, "exited with 85"),
    ("exit 137", "killed", True, "SIGKILL"),
    ("echo trained, but without a word", "result_missing", False, "no termination message"),
    ("echo nonsense > /dev/termination-log", "result_invalid", False, "not JSON"),
]


@pytest.mark.case("C031")
@pytest.mark.case("C054")
@pytest.mark.parametrize(("script", "category", "retried", "said"), FAILURES, ids=[row[1] for row in FAILURES])
def test_a_training_that_fails_says_whose_it_is_and_whether_to_retry(
    connected: FakeMlflow, script: str, category: str, retried: bool, said: str
) -> None:
    with pytest.raises(TrainingFailed, match=said) as caught:
        train(operator(spec(NAMESPACE, script), retries=1), TaskInstance(max_tries=1))

    assert caught.value.verdict.category == category
    assert isinstance(caught.value, AirflowFailException) is not retried
    assert caught.value.verdict.remedy in str(caught.value)
    assert "attempt 1: pod " in str(caught.value)
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "FAILED"


@pytest.mark.case("C014")
@pytest.mark.case("C087")
def test_the_job_makes_good_what_its_backoff_limit_allows(connected: FakeMlflow, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; exit 1; }}; {SUCCEED}"
    result = train(operator(spec(NAMESPACE, script, backoff_limit=1)), TaskInstance())

    assert result["attempts"] == 2


@pytest.mark.case("C034")
def test_the_deadline_is_told_as_such_and_not_retried(connected: FakeMlflow) -> None:
    with pytest.raises(TrainingFailedForGood, match="deadline_seconds") as caught:
        train(operator(spec(NAMESPACE, "trap 'exit 143' TERM; sleep 100 & wait", deadline_seconds=10)), TaskInstance())

    assert caught.value.verdict.category == "deadline_exceeded"


@pytest.mark.case("C028")
@pytest.mark.case("C071")
def test_a_failed_init_container_explains_the_failure(connected: FakeMlflow) -> None:
    init: dict[str, Any] = {
        "name": "download",
        "image": "sandbox-shell:1",
        "command": ["sh", "-c", "echo no such bucket; exit 3"],
        "resources": {"limits": {"memory": "32Mi"}, "requests": {"memory": "32Mi"}},
    }
    job = {"spec": {"template": {"spec": {"containers": [], "initContainers": [init]}}}}
    with pytest.raises(TrainingFailed, match="container download exited with 3"):
        train(operator(spec(NAMESPACE, SUCCEED), full_job_spec=job), TaskInstance())


@pytest.mark.case("C021")
@pytest.mark.case("C026")
@pytest.mark.case("C027")
@pytest.mark.case("C032")
def test_an_eviction_costs_no_attempt(sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    once = f"test -e {tmp_path}/tried || {{ touch {tmp_path}/tried; sleep 600 & wait; }}"
    script = f"trap 'exit 85' TERM; {once}; {SUCCEED}"
    trigger = trainings.defer(operator(spec(namespace, script), retries=0), TaskInstance())
    payloads: list[dict[str, Any]] = []
    waiting = Thread(target=lambda: payloads.append(trainings.fire(trigger)))
    waiting.start()
    wait_for(
        lambda: (tmp_path / "tried").exists() and trainings.is_running(sandbox, namespace), 30, "the first attempt"
    )
    (pod,) = trainings.pods_of(sandbox, namespace)
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
    waiting.join()

    assert payloads[0]["kind"] == "succeeded"
    first, second = payloads[0]["attempts"]
    assert first["verdict"]["category"] == "disrupted"
    assert first["pod"] == name
    assert second["verdict"] is None
    assert len(trainings.jobs_of(sandbox, namespace)) == 1
