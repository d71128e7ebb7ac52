"""A node turns pods away: that is not the training's failure, and it waits."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest
from tests.cluster.trainings import SUCCEED, TaskInstance, defer, fire, ledger_of, operator, pods_of, spec
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

NODE = "gpu-1"


def gpus_of(sandbox: Sandbox) -> int:
    node = sandbox.api.request("GET", f"/api/v1/nodes/{NODE}")
    return int(node["status"]["allocatable"]["nvidia.com/gpu"])


def hold_all_gpus(sandbox: Sandbox, namespace: str) -> str:
    """Have a pod hold every GPU of the node."""
    resources = {
        "requests": {"cpu": "10m", "memory": "16Mi"},
        "limits": {"nvidia.com/gpu": gpus_of(sandbox), "memory": "16Mi"},
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "c",
        "image": "sandbox-shell:1",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"],
        "resources": resources,
        "securityContext": security,
    }
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    pod = {"restartPolicy": "Never", "tolerations": [toleration], "containers": [container]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    sandbox.api.request("POST", path, {"metadata": {"name": "holder"}, "spec": pod})
    holder = f"{path}/holder"
    wait_for(
        lambda: sandbox.api.request("GET", holder)["status"]["phase"] == "Running", 60, "a pod that holds all GPUs"
    )
    return holder


def test_what_a_node_turns_away_spends_no_attempt_and_is_tried_until_it_is_let_in(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    """As after a node's restart, before its devices are back. Kubernetes counts each of these against backoffLimit."""
    holder = hold_all_gpus(sandbox, namespace)
    # Without a scheduler in between, as for a pod that was bound before the node went.
    bound = {"spec": {"template": {"spec": {"containers": [], "nodeName": NODE}}}}
    training = spec(namespace, SUCCEED, backoff_limit=0, deadline_seconds=300, budget={"attempts": 1})
    instance, payloads = TaskInstance(), list[dict[str, Any]]()
    trigger = defer(operator(training, full_job_spec=bound), instance)
    waiting = Thread(target=lambda: payloads.append(fire(trigger, limit=200)))
    waiting.start()

    def refused() -> list[str]:
        return [pod["metadata"]["uid"] for pod in pods_of(sandbox, namespace) if pod["status"].get("reason")]

    wait_for(lambda: len(refused()) >= 2, 120, "two pods that the node turned away")
    sandbox.api.request("DELETE", holder, {"gracePeriodSeconds": 1})
    waiting.join()

    result = operator(training, full_job_spec=bound).execute_complete(instance.context, payloads[0])
    (job,) = ledger_of(sandbox, namespace)["jobs"]
    categories = [attempt["verdict"]["category"] if attempt["verdict"] else None for attempt in job["attempts"]]
    assert result["reused"] is False
    assert categories == ["admission_failed"] * (len(categories) - 1) + [None]
    assert len(categories) >= 3
    assert all(attempt["gpu_seconds"] == 0 for attempt in job["attempts"][:-1])
