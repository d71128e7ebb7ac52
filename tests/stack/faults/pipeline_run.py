"""One run of the DAG `faults`: what Airflow says of it, through REST alone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from stack.lifecycle import Stack

DAG_ID = "faults"
ENDED = ("success", "failed")

_TIMEOUT_S = 60.0


class Airflow:
    """Airflow's REST API, as its administrator; its methods may be called from several threads."""

    def __init__(self, stack: Stack) -> None:
        self._http = httpx.Client(base_url=stack.airflow_url, timeout=_TIMEOUT_S, trust_env=False)
        login = {"username": "admin", "password": stack.record.passwords["admin"]}
        token = self._http.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        self._http.headers["authorization"] = f"Bearer {token}"

    def connect(self, conn_id: str, **fields: Any) -> None:
        """Make a connection."""
        self._http.post("/api/v2/connections", json={"connection_id": conn_id, **fields}).raise_for_status()

    def disconnect(self, conn_id: str) -> None:
        self._http.delete(f"/api/v2/connections/{conn_id}")

    def unpause(self) -> None:
        self._http.patch(f"/api/v2/dags/{DAG_ID}", json={"is_paused": False}).raise_for_status()

    def has_dag(self) -> bool:
        return self._http.get(f"/api/v2/dags/{DAG_ID}").is_success

    def trigger(self, conf: Mapping[str, object]) -> PipelineRun:
        body = {"logical_date": None, "conf": dict(conf)}
        answer = self._http.post(f"/api/v2/dags/{DAG_ID}/dagRuns", json=body).raise_for_status()
        return PipelineRun(self, str(answer.json()["dag_run_id"]))

    def get(self, path: str) -> Any:
        return self._http.get(path).raise_for_status().json()

    def text(self, path: str) -> str:
        return self._http.get(path).text

    def patch(self, path: str, document: Mapping[str, object]) -> None:
        self._http.patch(path, json=dict(document)).raise_for_status()

    def close(self) -> None:
        self._http.close()


class PipelineRun:
    """One run."""

    def __init__(self, airflow: Airflow, run_id: str) -> None:
        self._airflow = airflow
        self.run_id = run_id
        self._path = f"/api/v2/dags/{DAG_ID}/dagRuns/{quote(run_id, safe='')}"

    @property
    def state(self) -> str:
        return str(self._airflow.get(self._path)["state"])

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def task(self, task_id: str) -> dict[str, Any]:
        return dict(self._airflow.get(f"{self._path}/taskInstances/{task_id}"))

    def tasks(self) -> dict[str, tuple[str, int]]:
        """Give state and number of tries of each task."""
        found = self._airflow.get(f"{self._path}/taskInstances")["task_instances"]
        return {task["task_id"]: (str(task["state"]), int(task["try_number"])) for task in found}

    def process(self, task_id: str, *, but: int | None = None) -> int | None:
        """Give the pid of the process that runs a task; None when none does.

        :param but: pid of one that ran it before.
        """
        task = self.task(task_id)
        pid = task["pid"]
        return int(pid) if task["state"] == "running" and pid and pid != but else None

    def log(self, task_id: str) -> str:
        """Give the logs of all tries of a task."""
        tries = self.tasks().get(task_id, ("", 0))[1]
        return "\n".join(self._airflow.text(f"{self._path}/taskInstances/{task_id}/logs/{n + 1}") for n in range(tries))

    def give_up(self) -> None:
        """Mark it as failed, which ends its training."""
        self._airflow.patch(self._path, {"state": "failed"})
        deadline = time.monotonic() + _TIMEOUT_S
        while not self.has_ended and time.monotonic() < deadline:
            time.sleep(1)
