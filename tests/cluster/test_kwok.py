"""Nodes of kind kwok: many at once, with pods that live, end and go as their annotations say."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.pod_documents import SECURITY

from sandbox import kwok
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.kwok import KWOK_TAINT, Ending, PodLife
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

NODES = 100
TOLERATIONS = [{"operator": "Exists"}]


@pytest.fixture(scope="module")
def nodes(sandbox: Sandbox) -> Iterator[list[str]]:
    yield kwok.add_nodes(sandbox, NODES)
    kwok.remove_nodes(sandbox)


def pod_spec(**more: Any) -> dict[str, Any]:
    container = {
        "name": "training",
        "image": "trainer:1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "securityContext": SECURITY,
    }
    return {
        "restartPolicy": "Never",
        "tolerations": TOLERATIONS,
        "nodeSelector": {"gpu-training.io/node-kind": "kwok"},
        "containers": [container],
        **more,
    }


def create_pod(sandbox: Sandbox, namespace: str, life: PodLife, **spec: Any) -> str:
    name = f"pod-{secrets.token_hex(3)}"
    metadata = {"name": name, "annotations": life.annotations()}
    sandbox.api.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": pod_spec(**spec)}
    )
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def create_job(sandbox: Sandbox, namespace: str, life: PodLife, **spec: Any) -> str:
    template = {"metadata": {"annotations": life.annotations()}, "spec": pod_spec()}
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    metadata = {"name": f"job-{secrets.token_hex(3)}"}
    sandbox.api.request("POST", path, {"metadata": metadata, "spec": {"template": template, **spec}})
    return f"{path}/{metadata['name']}"


def ended(sandbox: Sandbox, path: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        pod: dict[str, Any] = sandbox.api.request("GET", path)
        return pod if pod["status"]["phase"] in ("Succeeded", "Failed") else None

    return wait_for(look, 60, f"the end of {path}")


def test_nodes_come_at_once_with_label_taint_and_capacity(sandbox: Sandbox, nodes: list[str]) -> None:
    assert len(nodes) == NODES
    node = sandbox.api.request("GET", f"/api/v1/nodes/{nodes[-1]}")
    assert (
        node["metadata"]["labels"].items()
        >= {
            "workload": "gpu-training",
            "gpu-training.io/node-kind": "kwok",
        }.items()
    )
    taints = {f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in node["spec"]["taints"]}
    assert taints == {"nvidia.com/gpu=true:NoSchedule", KWOK_TAINT}
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    leases = sandbox.api.request("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")["items"]
    assert {lease["metadata"]["name"] for lease in leases} >= set(nodes[:1])


@pytest.mark.parametrize(
    ("life", "phase", "reason", "exit_code", "container_reason"),
    [
        (PodLife(run_s=0.2), "Succeeded", None, 0, "Completed"),
        (PodLife(pending_s=0.2, run_s=0, ending=Ending.FAILED, exit_code=42), "Failed", None, 42, "Error"),
        (PodLife(run_s=0.1, run_at_most_s=0.3, ending=Ending.OOM_KILLED), "Failed", None, 137, "OOMKilled"),
        (PodLife(run_s=0, ending=Ending.EVICTED), "Failed", "Evicted", 137, "Error"),
    ],
    ids=[str(ending) for ending in Ending],
)
@pytest.mark.usefixtures("nodes")
def test_a_pod_ends_as_its_life_says(
    sandbox: Sandbox,
    namespace: str,
    life: PodLife,
    phase: str,
    reason: str | None,
    exit_code: int,
    container_reason: str,
) -> None:
    status = ended(sandbox, create_pod(sandbox, namespace, life))["status"]
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], status.get("reason")) == (phase, reason)
    assert (terminated["exitCode"], terminated["reason"]) == (exit_code, container_reason)
    disrupted = [each["reason"] for each in status["conditions"] if each["type"] == "DisruptionTarget"]
    assert disrupted == (["TerminationByKubelet"] if life.ending is Ending.EVICTED else [])


@pytest.mark.usefixtures("nodes")
def test_a_pod_may_leave_a_result_and_has_an_empty_log(sandbox: Sandbox, namespace: str) -> None:
    path = create_pod(sandbox, namespace, PodLife(run_s=0, message='{"loss": 0.25}'))
    terminated = ended(sandbox, path)["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["message"] == '{"loss": 0.25}'
    assert sandbox.api.request("GET", f"{path}/log") == ""


@pytest.mark.usefixtures("nodes")
def test_a_deleted_pod_ends_by_its_own_time_but_within_its_grace_period(sandbox: Sandbox, namespace: str) -> None:
    paths = [
        create_pod(sandbox, namespace, PodLife(), terminationGracePeriodSeconds=600),
        create_pod(sandbox, namespace, PodLife(stop_s=600), terminationGracePeriodSeconds=1),
    ]
    for path in paths:
        wait_for(lambda path=path: sandbox.api.request("GET", path)["status"]["phase"] == "Running", 30, "it runs")
        sandbox.api.request("DELETE", path)
        wait_for(lambda path=path: not sandbox.api.exists(path), 30, f"the end of {path}")


@pytest.mark.usefixtures("nodes")
def test_many_pods_run_at_once_each_with_a_life_of_its_own(sandbox: Sandbox, namespace: str) -> None:
    good = create_job(sandbox, namespace, PodLife(run_s=2), parallelism=60, completions=60)
    bad = create_job(sandbox, namespace, PodLife(run_s=1, ending=Ending.FAILED), parallelism=20, backoffLimit=0)

    def state(job: str) -> Counter[str]:
        conditions = sandbox.api.request("GET", job)["status"].get("conditions", ())
        return Counter(each["type"] for each in conditions if each["status"] == "True")

    wait_for(lambda: state(good)["Complete"] and state(bad)["Failed"], 120, "the ends of both Jobs")
    assert sandbox.api.request("GET", good)["status"]["succeeded"] == 60


def test_lost_nodes_are_not_ready_until_they_return(sandbox: Sandbox, nodes: list[str]) -> None:
    lost = nodes[:3]
    kwok.lose_nodes(sandbox, lost)

    def lease(name: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
        return str(sandbox.api.request("GET", path)["spec"]["renewTime"])

    silent = {name: lease(name) for name in lost}
    # What the node controller does after its grace period, without the wait.
    condition = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    for name in lost:
        change = {"status": {"conditions": [condition]}}
        content_type = "application/strategic-merge-patch+json"
        sandbox.api.request("PATCH", f"/api/v1/nodes/{name}/status", change, content_type=content_type)
    assert {name: lease(name) for name in lost} == silent
    kwok.return_nodes(sandbox, lost)
    wait_for(lambda: all(lease(name) != silent[name] for name in lost), 30, "new heartbeats")


def test_a_killed_controller_is_started_again_by_adding_nodes(
    sandbox: Sandbox, nodes: list[str], namespace: str
) -> None:
    sandbox.supervisor.stop("kwok", grace_s=0)
    assert kwok.add_nodes(sandbox, NODES) == nodes
    assert ended(sandbox, create_pod(sandbox, namespace, PodLife(run_s=0)))["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("count", [0, 5001])
def test_an_impossible_number_of_nodes_is_refused(sandbox: Sandbox, count: int) -> None:
    with pytest.raises(SandboxError, match="give a number from 1 to 5000"):
        kwok.add_nodes(sandbox, count)
