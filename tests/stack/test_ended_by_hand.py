"""A person ends a training whose task is deferred: on the real triggerer and scheduler, nothing goes on running."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from gpu_training.cli import DAG_PREFIX
from sandbox.cluster import Sandbox
from stack.assembly import sandbox_folder
from stack.lifecycle import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

DEADLINE_S = 240.0
DAG_ID = f"{DAG_PREFIX}flight-delay"


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S:g} s"
        time.sleep(0.3)


class Training:
    """One on-demand run of the example model that would train for minutes."""

    def __init__(self, stack: Stack, rounds: int) -> None:
        self.stack = stack
        cluster = Sandbox.attach(sandbox_folder(stack.folder))
        assert cluster is not None
        self.api = cluster.api
        login = {"username": "admin", "password": stack.record.passwords["admin"]}
        self.http = httpx.Client(base_url=stack.airflow_url, timeout=60, trust_env=False)
        token = self.http.post("/auth/token", json=login).json()["access_token"]
        self.http.headers["authorization"] = f"Bearer {token}"
        with stack.client() as client:
            stack.await_dag(client, DAG_ID)
            client.unpause(DAG_ID)
            # Another number of rounds is other work, with a Job and an MLflow run of its own.
            self.run_id = client.trigger(DAG_ID, {"rounds": rounds})

    @property
    def path(self) -> str:
        return f"/api/v2/dags/{DAG_ID}/dagRuns/{quote(self.run_id, safe='')}"

    def task(self, task_id: str = "train") -> dict[str, Any]:
        return dict(self.http.get(f"{self.path}/taskInstances/{task_id}").json())

    def run_state(self) -> str:
        return str(self.http.get(self.path).json()["state"])

    def told(self) -> dict[str, Any]:
        """Give what the operator told as soon as the Job was there."""
        return dict(self.http.get(f"{self.path}/taskInstances/train/xcomEntries/job").json()["value"])

    def pods(self) -> list[dict[str, Any]]:
        found = self.api.request("GET", "/api/v1/namespaces/gpu-training/pods")["items"]
        return [pod for pod in found if pod["metadata"]["labels"].get("job-name") == self.told()["job"]]

    def has_job(self) -> bool:
        return self.api.exists(f"/apis/batch/v1/namespaces/gpu-training/jobs/{self.told()['job']}")

    def is_training(self) -> bool:
        return self.task()["state"] == "deferred" and any(pod["status"]["phase"] == "Running" for pod in self.pods())

    def mark_run_failed(self) -> None:
        self.http.patch(self.path, json={"state": "failed"}).raise_for_status()

    def mark_task_failed(self) -> None:
        self.http.patch(f"{self.path}/taskInstances/train", json={"new_state": "failed"}).raise_for_status()

    def mlflow_status(self) -> str:
        query = {"run_id": self.told()["mlflow_run_id"]}
        run = httpx.get(f"{self.stack.mlflow_url}/api/2.0/mlflow/runs/get", params=query, timeout=60).json()
        return str(run["run"]["info"]["status"])

    def is_gone(self) -> bool:
        return not self.has_job() and not self.pods()


@pytest.fixture
def begin(stack: Stack) -> Iterator[Callable[[int], Training]]:
    """Start trainings that are ended after the test, however it goes."""
    begun: list[Training] = []

    def start(rounds: int) -> Training:
        begun.append(Training(stack, rounds))
        wait_until(begun[-1].is_training, "the training runs while its task is deferred")
        return begun[-1]

    yield start
    for training in begun:
        if training.run_state() in ("queued", "running"):
            training.mark_run_failed()
        training.http.close()


@pytest.mark.case("C047")
def test_a_run_marked_as_failed_leaves_nothing_running_and_ends_as_failed(begin: Callable[[int], Training]) -> None:
    training = begin(4001)
    training.mark_run_failed()
    wait_until(training.is_gone, "Job and pods are gone")
    wait_until(lambda: training.task("clean_up")["state"] in ("success", "failed"), "clean_up has ended")
    wait_until(lambda: training.run_state() == "failed", "the run has ended as failed")
    wait_until(lambda: training.mlflow_status() == "KILLED", "the MLflow run is closed")


@pytest.mark.case("C047")
@pytest.mark.case("C077")
def test_a_task_that_is_cleared_keeps_its_job_and_one_that_is_then_marked_loses_it(
    begin: Callable[[int], Training],
) -> None:
    training = begin(4002)
    before = training.told()
    body = {"task_ids": ["train"], "dag_run_id": training.run_id, "dry_run": False, "only_failed": False}
    training.http.post(f"/api/v2/dags/{DAG_ID}/clearTaskInstances", json=body).raise_for_status()
    wait_until(lambda: training.task()["try_number"] == 2 and training.is_training(), "the second try waits")
    assert training.told()["job_uid"] == before["job_uid"]
    training.mark_task_failed()
    wait_until(training.is_gone, "Job and pods are gone")
    wait_until(lambda: training.run_state() == "failed", "the run has failed")
    wait_until(lambda: training.mlflow_status() == "KILLED", "the MLflow run is closed")
