"""Airflow's connections to the session's cluster, and a proxy in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fake_mlflow import FakeMlflow
from tests.light_airflow import connect_cluster, connected, light_airflow, mlflow

from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy

__all__ = ["connected", "light_airflow", "mlflow"]


@pytest.fixture
def proxy(
    sandbox: Sandbox, connected: FakeMlflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyProxy]:
    """Set the connection `kubernetes_gpu` to lead through a proxy that can be made to fail."""
    with FaultyProxy(sandbox, tmp_path) as proxy:
        connect_cluster(monkeypatch, proxy.kubeconfig)
        yield proxy
