"""What is peculiar to nodes of kind `process`; what every kind must do alike is in tests/contract."""

from __future__ import annotations

import http.client
import json
import secrets
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.contract.pods import DEADLINE_S, MERGE_PATCH, ContractNode, Document, Pods, end_of, status_of

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.control_plane import Credentials
from sandbox.nodes import NodeRequest
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

GPU = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def pods(sandbox: Sandbox) -> Iterator[Pods]:
    name = f"agent-{secrets.token_hex(3)}"
    sandbox.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: sandbox.api.exists(account), DEADLINE_S, "the default service account")
    yield Pods(ContractNode(sandbox=sandbox, request=NodeRequest()), name)
    sandbox.api.request("DELETE", f"/api/v1/namespaces/{name}")
    wait_for(lambda: not sandbox.api.exists(f"/api/v1/namespaces/{name}"), 90, f"the end of namespace {name}")


def test_node_counts_its_gpus_carries_label_and_taint_and_renews_its_lease(sandbox: Sandbox) -> None:
    node = sandbox.api.request("GET", "/api/v1/nodes/gpu-1")
    assert node["status"]["allocatable"][GPU] == "1"
    assert node["metadata"]["labels"]["workload"] == "gpu-training"
    assert {"key": GPU, "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/gpu-1"
    first = sandbox.api.request("GET", lease)["spec"]["renewTime"]
    wait_for(lambda: sandbox.api.request("GET", lease)["spec"]["renewTime"] != first, 15, "a renewed lease")


@pytest.mark.parametrize(
    ("container", "reason", "words"),
    [
        ({"image": f"sandbox-shell@sha256:{'0' * 64}"}, "ErrImagePull", "not found (sandbox-shell is sandbox-shell@"),
        (
            {"lifecycle": {"preStop": {"exec": {"command": ["true"]}}}},
            "CreateContainerConfigError",
            "nodes of kind process have no hooks",
        ),
    ],
)
def test_container_that_this_node_can_not_make_says_why(
    pods: Pods, container: Document, reason: str, words: str
) -> None:
    assert words in pods.waiting(pods.create(container=container), reason)


def test_image_is_known_by_the_digest_of_what_it_is_now(pods: Pods) -> None:
    identity = ImageStore().image("sandbox-shell").identity
    assert status_of(pods.ended(pods.create(container={"image": identity})))["imageID"] == identity


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"hostPath": {"path": "/"}}, "hostPath is not available on nodes of kind process"),
        ({"persistentVolumeClaim": {"claimName": "x"}}, "nothing here provides the storage"),
    ],
)
def test_volume_that_this_node_never_has_is_refused_in_words(pods: Pods, volume: Document, words: str) -> None:
    name = pods.create(volumes=[{"name": "v", **volume}], nodeName="gpu-1")
    assert words in pods.waiting(name, "CreateContainerConfigError")


def test_container_that_waits_for_its_restart_says_so(pods: Pods) -> None:
    name = pods.create("exit 1", restartPolicy="OnFailure")
    message = pods.waiting(name, "CrashLoopBackOff")
    where = f"{name}_{pods.namespace}({pods.get(name)['metadata']['uid']})"
    assert message == f"back-off 10s restarting failed container=main pod={where}"
    pods.delete(name)


def test_end_that_came_while_the_api_server_was_away_is_told_when_it_is_back(pods: Pods) -> None:
    name = pods.create("sleep 1.5; printf late > /dev/termination-log; exit 4")
    pods.running(name)
    folder = _first_run(pods, name)
    supervisor = pods.node.sandbox.supervisor
    supervisor.stop("kube-apiserver")
    try:
        wait_for((folder / "exit.json").exists, DEADLINE_S, "the container's end")
    finally:
        supervisor.restart("kube-apiserver")
        wait_for(pods.api.is_ready, 60, "the API server")
    end = end_of(pods.ended(name))
    assert (end["exitCode"], end["message"]) == (4, "late")


def _first_run(pods: Pods, name: str) -> Path:
    uid = pods.get(name)["metadata"]["uid"]
    return pods.node.sandbox.folder / "nodes" / "gpu-1" / "pods" / uid / "containers" / "main" / "0"


def test_files_of_a_pod_that_was_removed_while_no_agent_ran_go_too(pods: Pods) -> None:
    name = pods.create("exec sleep 600")
    pods.running(name)
    folder = _first_run(pods, name)
    with pods.node.down():
        pods.delete(name, gracePeriodSeconds=0)
        assert folder.exists()
    wait_for(lambda: not folder.exists(), DEADLINE_S, "the pod's files to be gone")


def test_patched_gpu_capacity_stays_and_counts(pods: Pods) -> None:
    def patch(count: str) -> None:
        change = {"status": {"capacity": {GPU: count}, "allocatable": {GPU: count}}}
        pods.api.request("PATCH", "/api/v1/nodes/gpu-1/status", change, content_type=MERGE_PATCH)

    patch("2")
    try:
        name = pods.create(container={"resources": {"limits": {GPU: "2"}}})
        assert pods.ended(name)["status"]["phase"] == "Succeeded"
        patch("0")
        # As after five minutes without a device plugin: the kubelet has forgotten it, and compares amounts.
        pod = pods.ended(pods.create(nodeName="gpu-1", container={"resources": {"limits": {GPU: "1"}}}))
        assert pod["status"]["reason"] == f"OutOf{GPU}"
        assert pod["status"]["message"].endswith(f"enough resource: {GPU}, requested: 1, used: 0, capacity: 0")
    finally:
        patch("1")


def test_log_server_talks_to_the_api_server_alone(sandbox: Sandbox) -> None:
    ready = json.loads((sandbox.folder / "nodes" / "gpu-1" / "ready.json").read_text())
    anyone = ssl.create_default_context(cafile=str(Credentials(sandbox.folder / "certificates").cluster.certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", ready["port"], context=anyone, timeout=10)

    def ask() -> int:
        connection.request("GET", "/healthz")
        return connection.getresponse().status

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask()


def test_twenty_pods_at_once_all_end_with_their_own_result(pods: Pods) -> None:
    with ThreadPoolExecutor(4) as pool:
        names = list(pool.map(lambda n: pods.create(f"printf {n} > /dev/termination-log"), range(20)))
    messages = [end_of(pods.ended(name, 60))["message"] for name in names]
    assert messages == [str(n) for n in range(20)]
