"""Where MLflow is, from an Airflow connection, and how its client is spoken to with bounded patience."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from gpu_training.core.errors import ConfigurationError, RegistryError

_CONNECT_S: Final = 4
_ANSWER_S: Final = 6
_PROBE_RETRIES: Final = 1
"""For the first question of an exchange: whether anybody is there has to be known in about ten seconds. A server that
is there and busy, with twenty registrations at once, say, has a little longer to answer."""
_TIMEOUT: Final = "MLFLOW_HTTP_REQUEST_TIMEOUT"
_RETRIES: Final = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"
_PATIENCE: Final = {_TIMEOUT: "30", _RETRIES: "3"}
"""For what follows. MLflow's own defaults, 7 retries of 120 s, hold a worker for a quarter of an hour."""
_ALWAYS: Final = {
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Standard output is the task's log, which has a link to the run already.
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

_PERMANENT: Final = frozenset(
    {
        "BAD_REQUEST",
        "ENDPOINT_NOT_FOUND",
        "INVALID_PARAMETER_VALUE",
        "INVALID_STATE",
        "PERMISSION_DENIED",
        "RESOURCE_DOES_NOT_EXIST",
        "UNAUTHENTICATED",
    }
)


class SharedEnvironment:
    """Environment variables for as long as somebody needs them.

    MLflow reads its settings from the environment at every request. Threads that want the same settings share them; one
    that wants others, for another connection, waits until they are gone.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._settings: Mapping[str, str] = {}
        self._before: dict[str, str | None] = {}
        self._users = 0

    @contextmanager
    def holding(self, settings: Mapping[str, str]) -> Iterator[None]:
        """Have the settings in the environment; what was there before comes back after the last user."""
        with self._changed:
            self._changed.wait_for(lambda: not self._users or self._settings == settings)
            if not self._users:
                self._settings = dict(settings)
                self._before = {name: os.environ.get(name) for name in settings}
                os.environ.update(settings)
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                if not self._users:
                    self._restore()
                    self._changed.notify_all()

    def _restore(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_environment: Final = SharedEnvironment()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingServer:
    """An MLflow server and how to log in.

    :param conn_id: Airflow connection that this came from, for messages.
    :param uri: tracking URI without credentials; it is shown and handed to pods.
    """

    conn_id: str
    uri: str
    login: str | None = None
    password: str | None = field(default=None, repr=False)

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Give an MlflowClient for one exchange; the server has answered it once.

        Login and limits of patience hold for the exchange only. Limits that the deployment has set in the environment
        itself are left alone.

        :raises RegistryError: for every error of MLflow in the exchange, the body's included.
        """
        settings = self._settings()
        with _environment.holding(settings), self._translated():
            # Imported here because it takes seconds, and must be once the environment says that no usage is reported.
            from mlflow import MlflowClient
            from mlflow.utils.credentials import get_default_host_creds
            from mlflow.utils.rest_utils import http_request, verify_rest_response

            host, probe = get_default_host_creds(self.uri), "/api/2.0/mlflow/experiments/search"
            limit = int(settings[_TIMEOUT])
            answer = http_request(
                host,
                probe,
                "POST",
                json={"max_results": 1},
                timeout=(min(_CONNECT_S, limit), min(_ANSWER_S, limit)),
                max_retries=min(_PROBE_RETRIES, int(settings[_RETRIES])),
            )
            verify_rest_response(answer, probe)
            yield MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    def _settings(self) -> dict[str, str]:
        return {
            **_PATIENCE,
            **{name: os.environ[name] for name in _PATIENCE if name in os.environ},
            **_ALWAYS,
            **self._login(),
        }

    def _login(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        if self.login:
            settings |= {"MLFLOW_TRACKING_USERNAME": self.login, "MLFLOW_TRACKING_PASSWORD": self.password or ""}
        elif self.password:
            settings["MLFLOW_TRACKING_TOKEN"] = self.password
        return settings

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except Exception as exc:
            if type(exc).__module__.split(".")[0] != "mlflow":
                raise
            raise registry_error(self, exc) from exc


def registry_error(server: TrackingServer, exc: Exception) -> RegistryError:
    """Give our error for one of MLflow's: what it said, which connection it is about, and what to check."""
    code = str(getattr(exc, "error_code", ""))
    said = " ".join(str(exc).split())[:500]
    where = f"MLflow at {server.uri} (connection {server.conn_id!r})"
    if code in ("UNAUTHENTICATED", "PERMISSION_DENIED") or " 401 " in said or " 403 " in said:
        message = f"{where} refused the login: {said}. Check login and password of the connection and its permissions"
        return RegistryError(message, transient=False)
    if "failed with exception" in said:
        return RegistryError(
            f"{where} can not be reached: {said}. Check that the server runs, and host and port of the connection",
            transient=True,
        )
    if "failed with error code 404" in said:
        message = f"{where} answers, but not as MLflow does: {said}. Check host, port and path of the connection"
        return RegistryError(message, transient=False)
    # Two writers at the same moment: MLflow calls its database's refusal of the second a bad request.
    return RegistryError(f"{where}: {said}", transient=code not in _PERMANENT or "IntegrityError" in said)


def tracking_server(conn_id: str) -> TrackingServer:
    """Give the server of an Airflow connection: type `http`, host (with or without a scheme and a path), schema, port;
    login and password for basic authentication, or a password alone as bearer token.

    :raises ConfigurationError: there is no such connection, or its host is no address.
    """
    from airflow.sdk import Connection
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        connection = Connection.get(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as exc:
        raise ConfigurationError(
            "MLflow connection",
            conn_id,
            f"an Airflow connection of type http is expected, e.g. the variable AIRFLOW_CONN_{conn_id.upper()}: {exc}",
        ) from exc
    uri = _uri(conn_id, connection.host or "", connection.schema or "http", connection.port)
    return TrackingServer(
        conn_id=conn_id, uri=uri, login=connection.login or None, password=connection.password or None
    )


def _uri(conn_id: str, host: str, scheme: str, port: int | None) -> str:
    parts = urlsplit(host if "://" in host else f"{scheme}://{host}")
    try:
        port = parts.port or port
    except ValueError:
        parts = parts._replace(netloc="")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ConfigurationError(
            f"connection {conn_id!r}: host",
            # Whatever stands before an @ may be a password.
            f"…@{host.rpartition('@')[2]}" if "@" in host else host,
            "a host name, or http(s)://host/path without credentials, is expected; schema is http or https",
        )
    name = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
