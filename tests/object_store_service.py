"""A real S3 server for tests: moto's, in memory, one a session."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.mlflow_service import PYTHON, free_port

_START_DEADLINE_S = 60.0


@dataclass(frozen=True)
class ObjectStoreServer:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def connection(self) -> str:
        """An Airflow connection to it, as the variable AIRFLOW_CONN_… holds one."""
        extra = f'{{"endpoint_url": "{self.url}", "region_name": "us-east-1"}}'
        return f'{{"conn_type": "aws", "login": "test-access-key", "password": "test-secret-key", "extra": {extra}}}'

    @property
    def client(self) -> Any:
        """A client that is let in."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="test-access-key",
            aws_secret_access_key="test-secret-key",
        )


@pytest.fixture(scope="session")
def object_store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStoreServer]:
    """A running server."""
    server, folder = ObjectStoreServer(port=free_port()), tmp_path_factory.mktemp("object-store")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    argv = [str(PYTHON), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(server.port)]
    log = folder / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen(argv, env=environment, stdout=stream, stderr=stream, start_new_session=True)
    deadline = time.monotonic() + _START_DEADLINE_S
    while not _answers(server):
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"the S3 server did not come up:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)
    yield server
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _answers(server: ObjectStoreServer) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/moto-api/", timeout=10):  # noqa: S310 - our own server
            return True
    except OSError:
        return False
