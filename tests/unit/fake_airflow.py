"""An HTTP server that answers as Airflow 3.3 does, with one DAG and one run that goes through given frames."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

DAG_ID = "train_on_demand__flight-delay"
RUN_ID = "manual__2026-01-02T03:04:05+00:00"
PASSWORD = "right"
PARAMS = {
    "rounds": {"value": 200, "schema": {"type": "integer", "minimum": 1}, "description": None, "source": None},
    "data_version": {"value": "latest", "schema": {"type": ["null", "string"]}, "description": None, "source": None},
    "dry_run": {"value": False, "schema": {"type": "boolean"}, "description": None, "source": None},
}
HEADER = ["::group::Log message source details", "/logs/attempt=1.log", "::endgroup::"]


@dataclass(frozen=True)
class Frame:
    """What the server says of the run between two looks at its state.

    :param tasks: state and try of each.
    :param logs: the whole log of each task's try, so far.
    """

    run: str
    tasks: Mapping[str, tuple[str | None, int]] = field(default_factory=dict)
    logs: Mapping[str, Sequence[Any]] = field(default_factory=dict)


@dataclass
class FakeAirflow:
    """The server's state; a test sets it up and looks at what was asked.

    :param healthy: status of each service; None for one that is absent.
    :param pools: by name, what Airflow tells of each.
    :param outage: so many requests from now on are cut off without an answer.
    """

    frames: Sequence[Frame] = (Frame("success"),)
    xcoms: Mapping[str, Any] = field(default_factory=dict)
    paused: bool = False
    forbidden: bool = False
    outage: int = 0
    import_errors: Sequence[Mapping[str, str]] = ()
    healthy: Mapping[str, str | None] = field(
        default_factory=lambda: {"metadatabase": "healthy", "scheduler": "unhealthy", "dag_processor": None}
    )
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    url: str = ""
    triggered: list[Mapping[str, Any]] = field(default_factory=list)
    logins: int = 0
    valid_token: str = "token-0"
    position: int = -1

    @property
    def frame(self) -> Frame:
        return self.frames[min(max(self.position, 0), len(self.frames) - 1)]

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        for wanted, pattern, name in ROUTES:
            found = re.fullmatch(pattern, path)
            if found and method == wanted:
                if path.startswith((f"/api/v2/dags/{DAG_ID}", "/api/v2/pools/")) or not found.groups():
                    return getattr(self, name)(query, body, *found.groups())
                break
        return 404, {"detail": f"{path} was not found"}

    def log_in(self, query: Any, body: Any) -> tuple[int, Any]:
        if body != {"username": "op", "password": PASSWORD}:
            return 401, {"detail": "Invalid credentials"}
        self.logins += 1
        self.valid_token = f"token-{self.logins}"
        return 201, {"access_token": self.valid_token}

    def health(self, query: Any, body: Any) -> tuple[int, Any]:
        return 200, {name: status and {"status": status} for name, status in self.healthy.items()}

    def pool(self, query: Any, body: Any, name: str) -> tuple[int, Any]:
        if name not in self.pools:
            return 404, {"detail": f"Pool {name} not found"}
        return 200, {"name": name, **self.pools[name]}

    def list_dags(self, query: Any, body: Any) -> tuple[int, Any]:
        return 200, {"dags": [{"dag_id": DAG_ID}], "total_entries": 1}

    def list_import_errors(self, query: Any, body: Any) -> tuple[int, Any]:
        return 200, {"import_errors": list(self.import_errors)}

    def details(self, query: Any, body: Any, dag_id: str) -> tuple[int, Any]:
        return 200, {"dag_id": dag_id, "is_paused": self.paused, "params": PARAMS}

    def patch(self, query: Any, body: Any, dag_id: str) -> tuple[int, Any]:
        self.paused = body["is_paused"]
        return 200, {"dag_id": dag_id}

    def trigger(self, query: Any, body: Any, dag_id: str) -> tuple[int, Any]:
        if self.forbidden:
            return 403, {"detail": "Forbidden"}
        if "logical_date" not in body:
            return 422, {"detail": [{"loc": ["body", "logical_date"], "msg": "Field required"}]}
        rounds = body["conf"].get("rounds", 1)
        if not isinstance(rounds, int) or rounds < 1:
            said = f"Invalid input for param rounds: {rounds!r} is no integer from 1"
            return 400, {"detail": f"{said}\n\nFailed validating 'minimum' in schema:\n    {{'type': 'integer'}}"}
        self.triggered.append(body["conf"])
        return 200, {"dag_run_id": RUN_ID}

    def run_state(self, query: Any, body: Any, dag_id: str, run_id: str) -> tuple[int, Any]:
        self.position += 1
        return 200, {"dag_run_id": unquote(run_id), "state": self.frame.run}

    def tasks(self, query: Any, body: Any, dag_id: str, run_id: str) -> tuple[int, Any]:
        instances = [
            {
                "task_id": name,
                "state": state,
                "try_number": number,
                "start_date": f"2026-01-02T03:04:{order:02}Z" if number else None,
                "duration": 1.5 if state in ("success", "failed") else None,
            }
            for order, (name, (state, number)) in enumerate(self.frame.tasks.items())
        ]
        return 200, {"task_instances": instances[::-1]}

    def log(self, query: Any, body: Any, dag_id: str, run_id: str, task_id: str, number: str) -> tuple[int, Any]:
        entries = self.frame.logs.get(f"{task_id}/{number}")
        if entries is None:
            return 404, {"detail": "TaskInstance not found"}
        token = query.get("token", [None])[0]
        content = entries[int(token) :] if token else [*HEADER, *entries]
        live = self.frame.tasks.get(task_id) in (("running", int(number)), ("deferred", int(number)))
        return 200, {
            "content": [entry if isinstance(entry, dict) else {"event": entry} for entry in content],
            "continuation_token": str(len(entries)) if live else None,
        }

    def xcom(self, query: Any, body: Any, dag_id: str, run_id: str, task_id: str) -> tuple[int, Any]:
        if task_id not in self.xcoms:
            return 404, {"detail": "XCom entry with key: `return_value` not found"}
        return 200, {"key": "return_value", "value": self.xcoms[task_id]}


_RUN = r"/api/v2/dags/([^/]+)/dagRuns/([^/]+)"
ROUTES = (
    ("POST", "/auth/token", "log_in"),
    ("GET", "/api/v2/monitor/health", "health"),
    ("GET", "/api/v2/importErrors", "list_import_errors"),
    ("GET", "/api/v2/pools/([^/]+)", "pool"),
    ("GET", "/api/v2/dags", "list_dags"),
    ("GET", "/api/v2/dags/([^/]+)/details", "details"),
    ("PATCH", "/api/v2/dags/([^/]+)", "patch"),
    ("POST", "/api/v2/dags/([^/]+)/dagRuns", "trigger"),
    ("GET", _RUN, "run_state"),
    ("GET", f"{_RUN}/taskInstances", "tasks"),
    ("GET", f"{_RUN}/taskInstances/([^/]+)/logs/([0-9]+)", "log"),
    ("GET", f"{_RUN}/taskInstances/([^/]+)/xcomEntries/return_value", "xcom"),
)
OPEN = ("/auth/token", "/api/v2/monitor/health")


@contextmanager
def serve(airflow: FakeAirflow) -> Iterator[FakeAirflow]:
    """Serve it on a free port; its `url` is set."""

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if airflow.outage:
                airflow.outage -= 1
                self.close_connection = True
                return
            if parts.path not in OPEN and self.headers.get("authorization") != f"Bearer {airflow.valid_token}":
                status, answer = 401, {"detail": "Invalid JWT token"}
            else:
                status, answer = airflow.answer(self.command, parts.path, parse_qs(parts.query), body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = handle_request  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    airflow.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield airflow
    finally:
        server.shutdown()
        server.server_close()
