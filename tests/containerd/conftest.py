"""One node with real containers for all tests of the tier, in the session's cluster."""

from __future__ import annotations

import pytest
from tests.containerd.restricted import RestrictedPods
from tests.contract.pods import ContractNode
from tests.light_airflow import connected, light_airflow, mlflow

from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest

__all__ = ["connected", "light_airflow", "mlflow"]


@pytest.fixture
def pods(sandbox: Sandbox, container_node: NodeRequest, namespace: str) -> RestrictedPods:
    """Give the pods of a namespace of the test's own, all of them on the node."""
    return RestrictedPods(ContractNode(sandbox=sandbox, request=container_node), namespace)
