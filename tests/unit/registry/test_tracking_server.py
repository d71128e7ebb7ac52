"""Where MLflow is, from an Airflow connection; how it is logged in to; what its errors become."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpu_training.core.errors import ConfigurationError, RegistryError
from gpu_training.registry.tracking_server import SharedEnvironment, TrackingServer, registry_error, tracking_server

pytestmark = pytest.mark.unit

SECRET = "hunter2"


class Door(BaseHTTPRequestHandler):
    """Answers like MLflow's server, but only to whoever may enter; writes down who came."""

    allowed = ""
    seen: list[str | None]
    status = 401

    def do_POST(self) -> None:
        header = self.headers.get("Authorization")
        self.server.seen.append(header)  # type: ignore[attr-defined]
        status = 200 if header == self.server.allowed else self.server.status  # type: ignore[attr-defined]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"{}" if status == 200 else b"<html>no</html>")

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def door() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    server.seen, server.allowed, server.status = [], "", 401  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def connect(monkeypatch: pytest.MonkeyPatch, value: str) -> TrackingServer:
    monkeypatch.setenv("AIRFLOW_CONN_MLFLOW_UNDER_TEST", value)
    return tracking_server("mlflow_under_test")


@pytest.mark.parametrize(
    ("connection", "uri"),
    [
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ('{"conn_type": "http", "host": "mlflow.example.com"}', "http://mlflow.example.com"),
        ('{"conn_type": "http", "host": "mlflow.example.com", "schema": "https"}', "https://mlflow.example.com"),
        (
            '{"conn_type": "http", "host": "https://example.com/mlflow/", "port": 8443}',
            "https://example.com:8443/mlflow",
        ),
        ('{"conn_type": "http", "host": "http://[::1]:5000"}', "http://[::1]:5000"),
    ],
)
def test_a_connection_names_the_tracking_uri(monkeypatch: pytest.MonkeyPatch, connection: str, uri: str) -> None:
    assert connect(monkeypatch, connection).uri == uri


@pytest.mark.parametrize("host", ["", "ftp://example.com", "http://user:hunter2@example.com", "http://x:port"])
def test_a_host_that_is_no_address_is_refused(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    with pytest.raises(ConfigurationError, match="connection 'mlflow_under_test': host"):
        connect(monkeypatch, json.dumps({"conn_type": "http", "host": host}))


def test_a_missing_connection_is_told_by_its_name() -> None:
    with pytest.raises(ConfigurationError, match=r"MLflow connection='nobody_made_it'.*AIRFLOW_CONN_NOBODY_MADE_IT"):
        tracking_server("nobody_made_it")


@pytest.mark.parametrize(
    ("login", "header"),
    [
        (f"user:{SECRET}@", "Basic " + base64.b64encode(f"user:{SECRET}".encode()).decode()),
        (f":{SECRET}@", f"Bearer {SECRET}"),
    ],
)
def test_the_login_is_used_for_an_exchange_and_left_nowhere(
    monkeypatch: pytest.MonkeyPatch, door: ThreadingHTTPServer, login: str, header: str
) -> None:
    door.allowed = header  # type: ignore[attr-defined]
    server = connect(monkeypatch, f"http://{login}127.0.0.1:{door.server_port}")
    before = dict(os.environ)
    with server.client():
        pass
    assert door.seen == [header]  # type: ignore[attr-defined]
    assert dict(os.environ) == before
    assert SECRET not in repr(server) + server.uri


@pytest.mark.parametrize(
    ("status", "words", "transient"),
    [
        (401, "refused the login.*Check login and password", False),
        (403, "refused the login", False),
        (404, "answers, but not as MLflow does.*Check host, port and path", False),
        (503, "can not be reached", True),
    ],
)
def test_a_refusal_says_what_to_check_and_no_secret(
    monkeypatch: pytest.MonkeyPatch, door: ThreadingHTTPServer, status: int, words: str, transient: bool
) -> None:
    door.status = status  # type: ignore[attr-defined]
    server = connect(monkeypatch, f"http://user:{SECRET}@127.0.0.1:{door.server_port}")
    with pytest.raises(RegistryError, match=rf"connection 'mlflow_under_test'\) {words}") as caught, server.client():
        pass
    assert caught.value.transient is transient
    assert SECRET not in str(caught.value)


def test_a_server_that_accepts_and_says_nothing_is_given_up_in_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = connect(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(RegistryError, match="can not be reached") as caught, server.client():
            pass
    assert caught.value.transient
    assert time.monotonic() - started < 15


def test_limits_that_the_deployment_sets_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = connect(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(RegistryError), server.client():
            pass
    assert time.monotonic() - started < 4
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "1"


def test_an_error_of_the_caller_s_own_is_left_alone(monkeypatch: pytest.MonkeyPatch, door: ThreadingHTTPServer) -> None:
    door.allowed = None  # type: ignore[attr-defined]
    server = connect(monkeypatch, f"http://127.0.0.1:{door.server_port}")
    with pytest.raises(KeyError), server.client():
        raise KeyError("not MLflow's")


def test_two_logins_never_mix_and_one_login_is_shared() -> None:
    environment, together = SharedEnvironment(), threading.Barrier(2, timeout=30)
    seen = []

    def use(login: str) -> None:
        with environment.holding({"TEST_LOGIN": login}):
            if login == "shared":
                together.wait()
            seen.append((login, os.environ["TEST_LOGIN"]))

    threads = [threading.Thread(target=use, args=(login,)) for login in ("shared", "other", "shared", "third")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(seen) == [(login, login) for login in ("other", "shared", "shared", "third")]
    assert "TEST_LOGIN" not in os.environ


@pytest.mark.parametrize(
    ("said", "transient"),
    [
        ("(sqlite3.IntegrityError) UNIQUE constraint failed: registered_model_aliases.alias", True),
        ("(sqlalchemy.exc.IntegrityError) (psycopg2.errors.UniqueViolation) duplicate key value", True),
        ("the alias is not valid", False),
    ],
)
def test_a_race_in_the_server_s_database_may_be_tried_again_and_a_bad_request_may_not(
    said: str, transient: bool
) -> None:
    class RefusedError(Exception):
        error_code = "BAD_REQUEST"

    server = TrackingServer(conn_id="mlflow_tracking", uri="http://127.0.0.1:1")
    assert registry_error(server, RefusedError(said)).transient is transient
