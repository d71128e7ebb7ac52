"""A client of Airflow's public REST API: trigger a run, watch its tasks, read logs as they grow, get XComs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

import httpx

from gpu_training.core.task_log import log_lines

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ATTEMPTS = 3
"""Tries of a reading request. Airflow's own restarts take longer: who waits for those polls."""


class AirflowError(RuntimeError):
    """Airflow refused a request. The message holds what it said."""


class AirflowUnreachableError(AirflowError):
    """Nothing that speaks Airflow's API answers at the address."""


class NotFoundError(AirflowError):
    """There is no such DAG, run, task or entry."""


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (RunState.SUCCESS, RunState.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """How a task instance stands.

    :param state: Airflow's word, such as `running` or `deferred`; None: not scheduled yet.
    :param try_number: 0 before the first.
    :param seconds: what Airflow says it took; None while it has not ended.
    """

    task_id: str
    state: str | None
    try_number: int
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DagDetails:
    """What the trigger form knows of a DAG.

    :param params: name to `{"value": default, "schema": JSON schema, "description": …}`.
    """

    dag_id: str
    is_paused: bool
    params: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDetails:
    """One of Airflow's pools.

    :param slots: -1 for no bound.
    :param include_deferred: whether tasks that wait in the triggerer hold a slot.
    """

    slots: int
    include_deferred: bool


@dataclass(slots=True, kw_only=True)
class LogCursor:
    """How far a task's log has been read. Begin with a new one; :meth:`AirflowClient.new_log_lines` moves it."""

    task_id: str
    try_number: int
    token: str | None = None
    lines_read: int = 0


class AirflowClient:
    """A connection to one Airflow; close it, or use it as a context.

    :param url: where the UI is, such as `https://airflow.example.com`.
    :param token: a bearer token; else the user's name and password get one, anew when it expires.
    :raises AirflowUnreachableError: from every method.
    :raises AirflowError: from every method, when Airflow refuses.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        timeout_s: float = 20.0,
    ) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AirflowError(f"url={url!r}: an address that begins with http:// or https:// is expected")
        self._token = token
        self._login = (username, password) if username and password else None
        # A proxy for the outside world can not reach this machine's own services.
        self._http = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=parts.hostname not in _LOOPBACK)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def health(self) -> dict[str, str]:
        """Give each service's health, such as `{"scheduler": "healthy", …}`; no credentials are needed."""
        parts = self._decode(self._send("GET", "/api/v2/monitor/health"))
        return {name: str((part or {}).get("status")) for name, part in parts.items()}

    def dag(self, dag_id: str) -> DagDetails:
        """Give a DAG's details.

        :raises NotFoundError: it does not exist, or has not been parsed yet.
        """
        body = self._get(f"/api/v2/dags/{quote(dag_id)}/details")
        return DagDetails(dag_id=dag_id, is_paused=bool(body["is_paused"]), params=body.get("params") or {})

    def dag_ids(self, prefix: str) -> list[str]:
        """Give the ids that begin with a prefix, sorted."""
        body = self._get("/api/v2/dags", params={"dag_id_pattern": f"{prefix}%", "limit": 100})
        return sorted(dag["dag_id"] for dag in body["dags"] if dag["dag_id"].startswith(prefix))

    def import_errors(self) -> dict[str, str]:
        """Give the DAG files that fail to parse, each with its traceback."""
        body = self._get("/api/v2/importErrors", params={"limit": 100})
        return {error["filename"]: error["stack_trace"] for error in body["import_errors"]}

    def pool(self, name: str) -> PoolDetails:
        """Give a pool.

        :raises NotFoundError: it does not exist.
        """
        body = self._get(f"/api/v2/pools/{quote(name)}")
        return PoolDetails(slots=int(body["slots"]), include_deferred=bool(body["include_deferred"]))

    def unpause(self, dag_id: str) -> None:
        """Let a DAG's runs begin."""
        self._call("PATCH", f"/api/v2/dags/{quote(dag_id)}", json={"is_paused": False})

    def trigger(self, dag_id: str, conf: Mapping[str, Any]) -> str:
        """Start a run with these params and give its id."""
        body = {"logical_date": None, "conf": dict(conf)}
        return str(self._call("POST", f"/api/v2/dags/{quote(dag_id)}/dagRuns", json=body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> RunState:
        return RunState(self._get(_run_path(dag_id, run_id))["state"])

    def tasks(self, dag_id: str, run_id: str) -> list[TaskStatus]:
        """Give the task instances of a run, the earliest started first, those not started last."""
        body = self._get(f"{_run_path(dag_id, run_id)}/taskInstances", params={"limit": 100})
        found = sorted(body["task_instances"], key=lambda task: (task["start_date"] is None, task["start_date"] or ""))
        return [
            TaskStatus(
                task_id=task["task_id"], state=task["state"], try_number=task["try_number"], seconds=task["duration"]
            )
            for task in found
        ]

    def new_log_lines(self, dag_id: str, run_id: str, cursor: LogCursor) -> list[str]:
        """Give the lines that a task's log gained since the cursor's last call, and move the cursor.

        Airflow gives a token to continue from only while the task runs; without one the log is read from its start
        and what was given before is left out.
        """
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(cursor.task_id)}/logs/{cursor.try_number}"
        params = {"token": cursor.token} if cursor.token else {}
        try:
            body = self._get(path, params=params, headers={"accept": "application/json"})
        except NotFoundError:
            return []
        lines = log_lines(body["content"])
        if cursor.token is None:
            lines = lines[cursor.lines_read :]
        cursor.token = body.get("continuation_token")
        cursor.lines_read += len(lines)
        return lines

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """Give what a task left under a key; None when there is nothing."""
        path = f"{_run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        try:
            return self._get(path, params={"deserialize": "true"})["value"]
        except NotFoundError:
            return None

    def _get(self, path: str, **options: Any) -> dict[str, Any]:
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(AirflowUnreachableError):
                return self._call("GET", path, **options)
        return self._call("GET", path, **options)

    def _call(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **options: Any
    ) -> dict[str, Any]:
        response = self._send(method, path, headers={**self._authorization(), **(headers or {})}, **options)
        if response.status_code == httpx.codes.UNAUTHORIZED and self._login:
            self._token = None
            response = self._send(method, path, headers={**self._authorization(), **(headers or {})}, **options)
        return self._decode(response)

    def _authorization(self) -> dict[str, str]:
        if self._token is None:
            if self._login is None:
                raise AirflowError(f"{self.url} needs a login: give a token, or a user name and a password")
            username, password = self._login
            body = self._decode(self._send("POST", "/auth/token", json={"username": username, "password": password}))
            self._token = str(body["access_token"])
        return {"authorization": f"Bearer {self._token}"}

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise AirflowUnreachableError(
                f"Airflow can not be reached at {self.url} ({error or type(error).__name__}): check the address, and "
                "that its api-server runs"
            ) from error

    def _decode(self, response: httpx.Response) -> dict[str, Any]:
        request = response.request
        if response.is_success and "json" in response.headers.get("content-type", ""):
            body = response.json()
            if isinstance(body, dict):
                return body
        if response.is_success or response.is_redirect:
            raise AirflowUnreachableError(f"{self.url} is no Airflow 3: it answers {request.url.path} without JSON")
        kind = NotFoundError if response.status_code == httpx.codes.NOT_FOUND else AirflowError
        raise kind(f"Airflow refused {request.method} {request.url.path}: {response.status_code}, {_detail(response)}")


def _run_path(dag_id: str, run_id: str) -> str:
    return f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id)}"


def _detail(response: httpx.Response) -> str:
    """Give what Airflow says of a refusal, on one line."""
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.text
    if isinstance(detail, list):
        detail = "; ".join(f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}" for each in detail)
    # A refused param comes with the whole schema after the sentence that says what is wrong.
    return " ".join(str(detail).split()).partition(" Failed validating ")[0][:2000]
