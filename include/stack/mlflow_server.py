"""The MLflow server: records in SQLite in the state folder, artifacts in the S3 server, reached through MLflow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import httpx

from stack.checkout import SERVICES, base_environment, python_of
from stack.host import Host
from stack.object_store import MLFLOW, REGION, ObjectStore

NAME = "mlflow"
_START_DEADLINE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowServer:
    """Where MLflow is."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def start(host: Host, server: MlflowServer, store: ObjectStore, home: Path) -> None:
    """Start the server; returns when it has made its tables and answers.

    :raises StackError: it does not come up.
    """
    database = host.folder / "mlflow.db"
    environment = {
        **base_environment(home),
        **store.environment,
        "AWS_DEFAULT_REGION": REGION,
        "TMPDIR": str(home),  # it leaves the lock of its tables' making there
        "MLFLOW_SERVER_ALLOWED_HOSTS": f"127.0.0.1:{server.port},localhost:{server.port}",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        **_options(database),
    }
    # What `mlflow server` runs in the end. It imports all of MLflow once more to get there, twelve seconds of processor
    # time, and hands its options over in these variables (mlflow/server/constants.py of the pinned version).
    argv = [python_of(SERVICES), "-m", "uvicorn", "mlflow.server.fastapi_app:app", "--host", "127.0.0.1"]
    host.start(NAME, [*argv, "--port", str(server.port), "--log-level", "warning"], environment)
    host.wait_until_answers(NAME, f"{server.url}/health", deadline_s=_START_DEADLINE_S)
    host.wait_until(NAME, lambda: _has_tables(server), deadline_s=_START_DEADLINE_S)


def _options(database: Path) -> dict[str, str]:
    return {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{database}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"s3://{MLFLOW}",
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    }


def _has_tables(server: MlflowServer) -> bool:
    """Ask for an experiment: the first question makes the tables."""
    try:
        question = {"max_results": 1}
        return httpx.get(
            f"{server.url}/api/2.0/mlflow/experiments/search", params=question, timeout=30.0, trust_env=False
        ).is_success
    except httpx.HTTPError:
        return False
