"""Fixtures of the trainer's tests."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.trainer.harness import SERVICES, VERSION, Trainer, free_port, publish, served


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small, growing data versions."""
    folder = tmp_path_factory.mktemp("data") / "versions"
    done = publish(folder.as_uri(), "--weeks", "2", "--rows-per-day", "40")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def trainer(tmp_path: Path, versions: Path) -> Iterator[Trainer]:
    starter = Trainer(folder=tmp_path, manifest=versions / VERSION / "manifest.json")
    yield starter
    for process in starter.started:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="session")
def mlflow_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("mlflow")
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    # As `mlflow server` runs it in the end, after importing all of MLflow twice (stack/mlflow_server.py says more).
    command = [str(SERVICES / "python"), "-m", "uvicorn", "mlflow.server.fastapi_app:app", "--host", "127.0.0.1"]
    options = {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder / 'mlflow.db'}",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(folder / "artifacts"),
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    # The first question makes the tables.
    question = f"{uri}/api/2.0/mlflow/experiments/search?max_results=1"
    with served([*command, "--port", str(port)], url=question, log=folder / "log", **options):
        yield uri


@pytest.fixture
def s3_variables(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real S3 server with an empty bucket `flights`."""
    port = free_port()
    uri = f"http://127.0.0.1:{port}"
    with served([str(SERVICES / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], url=uri, log=tmp_path / "s3.log"):
        bucket = urllib.request.Request(f"{uri}/flights", method="PUT")  # noqa: S310
        urllib.request.urlopen(bucket, timeout=10).close()  # noqa: S310
        yield {"AWS_ENDPOINT_URL": uri, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
