"""pytest fixtures: a cluster for the session and a namespace for each test; a conftest.py imports them by name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox import manifests
from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest
from sandbox.waiting import DeadlineError, wait_for

__all__ = ["DeadlineError", "container_node", "namespace", "sandbox", "sandbox_folder", "wait_for"]

NAMESPACE_DEADLINE_S = 60.0
POD_GRACE_S = 1
CONTAINERS = "gpu-containers"
"""Value of the label `workload` of :func:`container_node`."""


@pytest.fixture(scope="session")
def sandbox_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the state folder of the session's cluster; its `logs` tell what happened until the session ends."""
    return tmp_path_factory.mktemp("sandbox")


@pytest.fixture(scope="session")
def sandbox(sandbox_folder: Path) -> Iterator[Sandbox]:
    """Give a cluster with node `gpu-1`; it ends with the session, or with the test process however that ends."""
    sandbox = Sandbox.up(sandbox_folder, owner_pid=os.getpid())
    yield sandbox
    sandbox.down()


@pytest.fixture(scope="session")
def container_node(sandbox: Sandbox) -> Iterator[NodeRequest]:
    """Give a node with real containers and two GPUs in the session's cluster; its label is its own."""
    request = NodeRequest(
        name="containers-1",
        kind="containerd",
        gpus=2,
        labels={"workload": CONTAINERS},
        kubelet={
            "nodeStatusUpdateFrequency": "1s",
            "nodeStatusReportFrequency": "5m",
            "containerLogMaxSize": "64Ki",
            "containerLogMaxFiles": 2,
            "containerLogMonitorInterval": "3s",
        },
    )
    sandbox.add_node(request)
    yield request
    sandbox.remove_node(request.name)


@pytest.fixture
def namespace(sandbox: Sandbox) -> Iterator[str]:
    """Give a fresh namespace with what `include/manifests` put into the project's own; the same operator may use it.

    After the test its Jobs and pods are ended, and their end is awaited, so that the next test has the GPUs.
    """
    name = f"test-{secrets.token_hex(4)}"
    manifests.apply(sandbox.api, name)
    wait_for(lambda: manifests.is_settled(sandbox.api, name), NAMESPACE_DEADLINE_S, f"namespace {name}")
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    for path in (f"/apis/batch/v1/namespaces/{name}/jobs", pods):
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        sandbox.api.request("DELETE", path, options | {"gracePeriodSeconds": POD_GRACE_S})
    wait_for(lambda: not sandbox.api.request("GET", pods)["items"], NAMESPACE_DEADLINE_S, f"the end of {name}'s pods")
    # Not awaited: its controller lets five seconds pass before it begins.
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{name}")
