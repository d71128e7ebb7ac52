"""Nodes of kind `kwok`: many at once, in the API only, with pods that have scripted lives."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from sandbox.agent.config import parse_taint
from sandbox.api import Document
from sandbox.binaries import architecture
from sandbox.bulk import Request, send_all
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.kwok.controller import KIND, KIND_LABEL, KWOK, LIST_TIMEOUT_S, LOST, PROCESS, list_nodes, start_controller
from sandbox.nodes import GPU_LABELS, GPU_TAINTS
from sandbox.ports import HOST
from sandbox.status import GPU_RESOURCE, is_node_ready
from sandbox.waiting import wait_for

MOST_NODES = 5000
"""More than that Kubernetes itself does not promise: https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

KWOK_TAINT = f"{KIND_LABEL}={KIND}:NoSchedule"
"""Keeps pods that do not mean these nodes away from them."""

MERGE_PATCH = "application/merge-patch+json"
READY_DEADLINE_S = 600.0
NODES_LISTED_A_SECOND = 1000
"""While they are waited for; to list thousands is work for the API server, which has theirs to do."""
NODES = "/api/v1/nodes"


def add_nodes(
    sandbox: Sandbox,
    count: int,
    *,
    name: str = "kwok",
    gpus: int = 8,
    cpu: str = "96",
    memory: str = "1Ti",
    labels: Mapping[str, str] = GPU_LABELS,
    taints: Sequence[str] = (*GPU_TAINTS, KWOK_TAINT),
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Add nodes `<name>-1` to `<name>-<count>` and wait until pods can be scheduled to all of them.

    Each has the label `gpu-training.io/node-kind=kwok`. What pods do on them their annotations say:
    :class:`sandbox.kwok.life.PodLife`. One of that name that exists is left as it is.

    :param gpus: of each node.
    :param taints: each `key=value:Effect`.
    :param progress: told how the build goes where kwok is to be built; None: it is shown on standard error.
    :returns: the nodes' names.
    :raises SandboxError: a value is not allowed, kwok can not be had, or the nodes are not ready in time.
    """
    if not 1 <= count <= MOST_NODES:
        raise SandboxError(f"{count} nodes of kind kwok are asked for: give a number from 1 to {MOST_NODES}")
    port = start_controller(sandbox, progress)
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi"}
    amounts |= {GPU_RESOURCE: str(gpus)} if gpus else {}
    names = [f"{name}-{number}" for number in range(1, count + 1)]
    documents = [_node(each, amounts, labels, taints, port) for each in names]
    requests = [Request(method="POST", target=NODES, body=document) for document in documents]
    send_all(sandbox.api, requests, allowed=(http.client.CONFLICT,))
    _await_schedulable(sandbox, names)
    return names


def remove_nodes(sandbox: Sandbox, names: Collection[str] | None = None) -> None:
    """Delete nodes of kind kwok and what pods they have.

    :param names: None: all of that kind, and the controller ends.
    """
    gone = {node["metadata"]["name"] for node in list_nodes(sandbox)}
    gone &= gone if names is None else set(names)
    pods = sandbox.api.request("GET", "/api/v1/pods", timeout_s=LIST_TIMEOUT_S)["items"]
    left = [pod["metadata"] for pod in pods if pod["spec"].get("nodeName") in gone]
    # Nobody is left who could confirm their end.
    now = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    paths = [f"/api/v1/namespaces/{pod['namespace']}/pods/{pod['name']}" for pod in left]
    _delete_all(sandbox, [f"{NODES}/{each}" for each in gone], {})
    _delete_all(sandbox, paths, now)
    if names is None and PROCESS in sandbox.supervisor.status():
        sandbox.supervisor.remove(PROCESS)


def lose_nodes(sandbox: Sandbox, names: Collection[str]) -> None:
    """Have nodes fall silent: no heartbeats, and their pods stay as they are."""
    _mark(sandbox, names, LOST)


def return_nodes(sandbox: Sandbox, names: Collection[str]) -> None:
    """Have lost nodes come back, and wait until pods can be scheduled to them again."""
    _mark(sandbox, names, KIND)
    _await_schedulable(sandbox, names)


def _node(
    name: str, amounts: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[str], port: int
) -> Document:
    own = {
        "kubernetes.io/arch": architecture(),
        "kubernetes.io/os": "linux",
        "kubernetes.io/hostname": name,
        KIND_LABEL: KIND,
    }
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    version = f"kwok-{KWOK.version}"
    told = dict.fromkeys(("bootID", "machineID", "systemUUID", "kubeProxyVersion"), "")
    told |= dict.fromkeys(("kernelVersion", "osImage", "kubeletVersion"), version)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **own}},
        "spec": {"taints": [parse_taint(text) for text in taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": HOST}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            "nodeInfo": {
                **told,
                "architecture": architecture(),
                "operatingSystem": "linux",
                "containerRuntimeVersion": "kwok://1",
            },
        },
    }


def _mark(sandbox: Sandbox, names: Collection[str], kind: str) -> None:
    change = {"metadata": {"labels": {KIND_LABEL: kind}}}
    paths = [f"{NODES}/{name}" for name in names]
    send_all(
        sandbox.api,
        [Request(method="PATCH", target=path, body=change, content_type=MERGE_PATCH) for path in paths],
    )


def _delete_all(sandbox: Sandbox, paths: Sequence[str], options: Document) -> None:
    requests = [Request(method="DELETE", target=path, body=options or None) for path in paths]
    send_all(sandbox.api, requests, allowed=(http.client.NOT_FOUND,))


def _await_schedulable(sandbox: Sandbox, names: Collection[str]) -> None:
    wait_for(
        lambda: _all_schedulable(sandbox, names),
        READY_DEADLINE_S,
        f"{len(names)} nodes of kind kwok to be ready",
        pause_s=len(names) / NODES_LISTED_A_SECOND,
    )


def _all_schedulable(sandbox: Sandbox, names: Collection[str]) -> bool:
    ready = {node["metadata"]["name"] for node in list_nodes(sandbox) if _is_schedulable(node)}
    return ready.issuperset(names)


def _is_schedulable(node: Document) -> bool:
    taints = node["spec"].get("taints") or ()
    return is_node_ready(node) and not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)
