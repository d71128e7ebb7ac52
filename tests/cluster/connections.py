"""The Airflow connections that a test's operator uses: the sandbox, and an MLflow that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy


def connect_cluster(patch: pytest.MonkeyPatch, kubeconfig: Path, conn_id: str = "kubernetes_gpu") -> None:
    extra = {"kube_config_path": str(kubeconfig)}
    patch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", json.dumps({"conn_type": "kubernetes", "extra": extra}))


def connect_mlflow(patch: pytest.MonkeyPatch, uri: str) -> None:
    address = urlsplit(uri)
    connection = {"conn_type": "http", "schema": "http", "host": address.hostname, "port": address.port}
    patch.setenv("AIRFLOW_CONN_MLFLOW_TRACKING", json.dumps(connection))


@pytest.fixture
def mlflow() -> Iterator[FakeMlflow]:
    """Give a tracking server that has no runs yet."""
    server = FakeMlflow()
    yield server
    server.stop()


@pytest.fixture
def connected(sandbox: Sandbox, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch) -> FakeMlflow:
    """Set the connections `kubernetes_gpu`, with the operator's own rights and no more, and `mlflow_tracking`."""
    connect_cluster(monkeypatch, sandbox.operator_kubeconfig)
    connect_mlflow(monkeypatch, mlflow.uri)
    return mlflow


@pytest.fixture
def proxy(
    sandbox: Sandbox, connected: FakeMlflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyProxy]:
    """Set the connection `kubernetes_gpu` to lead through a proxy that can be made to fail."""
    with FaultyProxy(sandbox, tmp_path) as proxy:
        connect_cluster(monkeypatch, proxy.kubeconfig)
        yield proxy
