"""One on-demand training on the whole stack: what Airflow, Kubernetes and MLflow say of it, and how it is held up."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from gpu_training.commands.run import DAG_PREFIX
from sandbox.cluster import Sandbox
from sandbox.processes import Process, descendants, send, snapshot
from stack.assembly import sandbox_folder
from stack.lifecycle import Stack

DEADLINE_S = 300.0
DAG_ID = f"{DAG_PREFIX}flight-delay"


def wait_until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S:g} s"
        time.sleep(0.3)


class Training:
    """One on-demand run of the example model.

    :param rounds: another number is other work, with a Job and an MLflow run of its own; thousands take minutes.
    """

    def __init__(self, stack: Stack, rounds: int) -> None:
        self.stack = stack
        cluster = Sandbox.attach(sandbox_folder(stack.folder))
        assert cluster is not None
        self.cluster = cluster
        self.api = cluster.api
        self._earlier = self._all_creations()
        login = {"username": "admin", "password": stack.record.passwords["admin"]}
        self.http = httpx.Client(base_url=stack.airflow_url, timeout=60, trust_env=False)
        token = self.http.post("/auth/token", json=login).json()["access_token"]
        self.http.headers["authorization"] = f"Bearer {token}"
        with stack.client() as client:
            stack.await_dag(client, DAG_ID)
            client.unpause(DAG_ID)
            self.run_id = client.trigger(DAG_ID, {"rounds": rounds})

    @property
    def path(self) -> str:
        return f"/api/v2/dags/{DAG_ID}/dagRuns/{quote(self.run_id, safe='')}"

    def task(self, task_id: str = "train") -> dict[str, Any]:
        return dict(self.http.get(f"{self.path}/taskInstances/{task_id}").json())

    def tries(self) -> dict[str, int]:
        """Give how many tries each task has had."""
        found = self.http.get(f"{self.path}/taskInstances").json()["task_instances"]
        return {task["task_id"]: task["try_number"] for task in found}

    def watcher(self) -> str:
        """Give the triggerer that has the training's trigger; empty when none has."""
        job = self.task()["triggerer_job"]
        return str(job["unixname"]) if job else ""

    def is_watched(self) -> bool:
        """Tell whether a trigger has seen the pod run."""
        return "running: pod" in self.log()

    def run_state(self) -> str:
        return str(self.http.get(self.path).json()["state"])

    def told(self) -> dict[str, Any]:
        """Give what the operator told as soon as the Job was there."""
        return dict(self.http.get(f"{self.path}/taskInstances/train/xcomEntries/job").json()["value"])

    def result(self, task_id: str) -> Any:
        return self.http.get(f"{self.path}/taskInstances/{task_id}/xcomEntries/return_value").json()["value"]

    def log(self, try_number: int = 1) -> str:
        return self.http.get(f"{self.path}/taskInstances/train/logs/{try_number}").text

    def creations(self) -> list[tuple[str, str]]:
        """Give Job and pod of each pod that any Job has made since this training was asked for, also of gone ones."""
        return [each for each in self._all_creations() if each not in self._earlier]

    def _all_creations(self) -> list[tuple[str, str]]:
        events = self.api.request("GET", "/api/v1/namespaces/gpu-training/events")["items"]
        made = [event for event in events if event["reason"] == "SuccessfulCreate"]
        return [(event["involvedObject"]["uid"], event["message"]) for event in made]

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

    @contextmanager
    def held(self) -> Iterator[None]:
        """Freeze the training program meanwhile, so that what is tested happens before its end on any machine."""
        wait_until(self._programs, "the training program runs")
        programs = self._programs()
        for program in programs:
            send(program, signal.SIGSTOP)
        try:
            yield
        finally:
            for program in programs:
                send(program, signal.SIGCONT)

    def _programs(self) -> list[Process]:
        below = descendants(self.cluster.supervisor.pid, snapshot())
        return [each for each in below if b"\0trainer\0" in _command(each.pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
