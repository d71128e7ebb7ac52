"""A real MLflow server for tests: records in SQLite, artifacts in a folder, one a session."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv-services" / "bin" / "python"
_START_DEADLINE_S = 120.0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class MlflowServer:
    """One server; it may be stopped and started again on its port, and keeps its records."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when the server answers questions about its records."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_SERVER_ALLOWED_HOSTS": f"127.0.0.1:{self.port},localhost:{self.port}",
            "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{self.folder}/mlflow.db",
            "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
            "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(self.folder / "artifacts"),
            "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        }
        # What `mlflow server` runs in the end, without importing all of MLflow twice.
        argv = [str(PYTHON), "-m", "uvicorn", "mlflow.server.fastapi_app:app", "--host", "127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*argv, "--port", str(self.port), "--log-level", "warning"],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_DEADLINE_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"MLflow did not come up:\n{(self.folder / 'log').read_text()[-4000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        if self.process is None:
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def _answers(self) -> bool:
        question = f"{self.uri}/api/2.0/mlflow/experiments/search?max_results=1"
        try:
            with urllib.request.urlopen(question, timeout=30) as answer:  # noqa: S310 - our own server
                return answer.status == 200
        except OSError:
            return False


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    """A running server; whoever stops it starts it again."""
    server = MlflowServer(folder=tmp_path_factory.mktemp("mlflow"), port=free_port())
    server.start()
    yield server
    server.stop()
