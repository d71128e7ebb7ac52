"""What Airflow says of the scenarios' tasks, read in its database, and what a person does to them by its REST API."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import psycopg2

from bench.waste.rows import Scenario
from stack.lifecycle import ADMIN, Stack

TASK = "train"
_FRESH_S = 0.3
_FINAL = ("success", "failed")
_QUERY = """
    SELECT r.dag_id, r.run_id, r.state, t.task_id, t.state, t.try_number, t.pid
    FROM dag_run r LEFT JOIN task_instance t ON t.dag_id = r.dag_id AND t.run_id = r.run_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """A task of a run.

    :param pid: of the process that runs it, or ran it last.
    """

    state: str
    tries: int
    pid: int | None


class Tasks:
    """All tasks of the stack's Airflow."""

    def __init__(self, stack: Stack) -> None:
        self._database = stack.record.database_url.replace("+psycopg2", "")
        self._lock = threading.Lock()
        self._read_at = 0.0
        self._runs: dict[tuple[str, str], str] = {}
        self._tasks: dict[tuple[str, str, str], TaskState] = {}
        login = {"username": ADMIN, "password": stack.record.passwords[ADMIN]}
        self._http = httpx.Client(base_url=stack.airflow_url, timeout=60, trust_env=False)
        token = self._http.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        self._http.headers["authorization"] = f"Bearer {token}"

    def begin(self, scenario: Scenario) -> str:
        """Start a run of a scenario's DAG and give its id."""
        body: dict[str, object] = {"logical_date": None, "conf": {}}
        answer = self._http.post(f"/api/v2/dags/{scenario.dag_id}/dagRuns", json=body).raise_for_status()
        return str(answer.json()["dag_run_id"])

    def task(self, scenario: Scenario, run_id: str, task_id: str = TASK) -> TaskState:
        """Give how a task stands."""
        with self._lock:
            self._refresh()
            return self._tasks.get((scenario.dag_id, run_id, task_id), TaskState(state="none", tries=0, pid=None))

    def has_ended(self, scenario: Scenario, run_id: str) -> bool:
        """Tell whether a run is in a final state."""
        with self._lock:
            self._refresh()
            return self._runs.get((scenario.dag_id, run_id)) in _FINAL

    def mark_failed(self, scenario: Scenario, run_id: str) -> None:
        """Mark the training as failed."""
        path = f"{_path(scenario, run_id)}/taskInstances/{TASK}"
        self._http.patch(path, json={"new_state": "failed"}).raise_for_status()

    def end(self, scenario: Scenario, run_id: str) -> None:
        """Mark the whole run as failed."""
        self._http.patch(_path(scenario, run_id), json={"state": "failed"}).raise_for_status()

    def clear(self, scenario: Scenario, run_id: str, *, only_failed: bool) -> None:
        """Clear all tasks of the run, or those that failed."""
        body = {"dag_run_id": run_id, "dry_run": False, "only_failed": only_failed, "reset_dag_runs": True}
        self._http.post(f"/api/v2/dags/{scenario.dag_id}/clearTaskInstances", json=body).raise_for_status()

    def close(self) -> None:
        self._http.close()

    def _refresh(self) -> None:
        if time.monotonic() - self._read_at < _FRESH_S:
            return
        with closing(psycopg2.connect(self._database)) as connection, connection.cursor() as cursor:
            cursor.execute(_QUERY)
            rows = cursor.fetchall()
        self._read_at = time.monotonic()
        self._runs = {(dag_id, run_id): state for dag_id, run_id, state, *_ in rows}
        self._tasks = {
            (dag_id, run_id, task_id): TaskState(state=state or "none", tries=tries, pid=pid)
            for dag_id, run_id, _, task_id, state, tries, pid in rows
            if task_id is not None
        }


def _path(scenario: Scenario, run_id: str) -> str:
    return f"/api/v2/dags/{scenario.dag_id}/dagRuns/{quote(run_id, safe='')}"
