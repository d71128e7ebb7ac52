"""The contract of a node: each test runs on a node of each kind that runs containers, one made for it alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from tests.contract.pods import DEADLINE_S, ContractNode, Pods

from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest
from sandbox.waiting import wait_for


@pytest.fixture(
    scope="session",
    params=[
        pytest.param("process", marks=pytest.mark.cluster),
        pytest.param("containerd", marks=pytest.mark.containerd),
    ],
)
def node(request: pytest.FixtureRequest, sandbox: Sandbox) -> Iterator[ContractNode]:
    """Give a node with two GPUs, labelled and tainted so that no other test's pod lands on it."""
    kind = request.param
    wanted = NodeRequest(
        name=f"contract-{kind}",
        kind=kind,
        gpus=2,
        labels={"contract": kind},
        taints=(f"contract={kind}:NoSchedule",),
        kubelet={"nodeStatusUpdateFrequency": "1s"} if kind == "containerd" else {},
    )
    sandbox.add_node(wanted)
    yield ContractNode(sandbox=sandbox, request=wanted)
    sandbox.remove_node(wanted.name)


@pytest.fixture(scope="module")
def pods(node: ContractNode) -> Iterator[Pods]:
    """Give the pods of a namespace of the module's own; what is left of them is deleted after it."""
    api, name = node.sandbox.api, f"contract-{secrets.token_hex(3)}"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: api.exists(account), DEADLINE_S, "the default service account")
    yield Pods(node, name)
    # Their end is not awaited: the node has room, and what is left goes with it.
    for path in (f"/api/v1/namespaces/{name}/pods", f"/api/v1/namespaces/{name}"):
        api.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1})
