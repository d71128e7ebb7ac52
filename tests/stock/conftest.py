"""Airflow's connection to the session's cluster as the stock operator wants it, and a proxy in front of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.light_airflow import connect_cluster

from sandbox.cluster import Sandbox
from sandbox.proxy import FaultyProxy

ACCOUNT = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture(scope="session")
def stock_kubeconfig(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the kubeconfig of an account that may do everything: nothing of what shows is a right that is missing."""
    metadata = {"name": "stock", "namespace": "default"}
    sandbox.api.request("POST", ACCOUNT, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "stock"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", **metadata}],
    }
    sandbox.api.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    document = json.loads(sandbox.operator_kubeconfig.read_text())
    token = sandbox.api.request("POST", f"{ACCOUNT}/stock/token", request)["status"]["token"]
    document["users"][0]["user"] = {"token": token}
    target = tmp_path_factory.mktemp("stock") / "kubeconfig"
    target.write_text(json.dumps(document))
    return target


@pytest.fixture
def connected(stock_kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the connection `kubernetes_gpu`."""
    connect_cluster(monkeypatch, stock_kubeconfig)


@pytest.fixture
def proxy(
    sandbox: Sandbox, stock_kubeconfig: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultyProxy]:
    """Set the connection `kubernetes_gpu` to lead through a proxy that can be made to fail."""
    with FaultyProxy(sandbox, tmp_path, stock_kubeconfig) as proxy:
        connect_cluster(monkeypatch, proxy.kubeconfig)
        yield proxy
