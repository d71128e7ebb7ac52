"""Nodes that are lost, reclaimed, deleted, cordoned, under pressure or without their GPUs.

How soon the cluster notices is a matter of :class:`sandbox.lifecycle.NodeLifecycle`.
"""

from __future__ import annotations

import datetime
import http.client
import shutil
import signal
import time
from collections.abc import Sequence
from typing import Any

from sandbox.api import ApiError, Document
from sandbox.cluster import Sandbox
from sandbox.containerd.node import DEVICE_PLUGIN, MACHINE
from sandbox.faults.agents import tell_agent
from sandbox.faults.names import node_named, node_processes
from sandbox.status import GPU_RESOURCE, is_node_ready
from sandbox.waiting import wait_for

NODE_DEADLINE_S = 60.0
SPOT_TAINT = {"key": "gpu-training.io/spot-reclaimed", "effect": "NoSchedule"}
MERGE_PATCH = "application/merge-patch+json"
TERMINAL = ("Succeeded", "Failed")


def lose_node(sandbox: Sandbox, name: str, *, power: bool = False) -> None:
    """Have a node fall silent: no heartbeats, no status, no logs, and orders to it are not heard.

    :param power: the machine is off, its containers end unseen; else it is cut off and they run on.
    :raises SandboxError: there is no such node.
    """
    for process in reversed(node_processes(sandbox, name)):
        if power:
            _power_off(sandbox, process)
        else:
            sandbox.supervisor.signal(process, signal.SIGSTOP)


def return_node(sandbox: Sandbox, name: str) -> None:
    """Have a lost node come back, and wait until it is Ready: connected again, or started if its machine was off.

    :raises SandboxError: there is no such node, or it is not Ready in time.
    """
    status, since = sandbox.supervisor.status(), time.time()
    for process in node_processes(sandbox, name):
        if status[process].alive:
            sandbox.supervisor.signal(process, signal.SIGCONT)
        else:
            sandbox.supervisor.restart(process)
    _await_back(sandbox, name, since)


def restart_node(sandbox: Sandbox, name: str, *, machine: bool = False) -> None:
    """Have a node's agent killed and started again, and wait until the node is Ready. Its containers run on meanwhile.

    :param machine: the whole machine starts anew: its containers are gone, and the agent restarts or fails each pod as
        its restart policy says.
    :raises SandboxError: there is no such node, or it is not Ready in time.
    """
    processes, since = node_processes(sandbox, name), time.time()
    if machine:
        lose_node(sandbox, name, power=True)
    for process in processes if machine else [sandbox.site.process_name(name)]:
        sandbox.supervisor.restart(process, alone=not machine)
    _await_back(sandbox, name, since)


def reclaim_node(sandbox: Sandbox, name: str, *, notice_s: float = 30.0) -> None:
    """Take a spot node: at the notice it is cordoned, tainted and drained, at its end machine and Node are gone.

    Pods are evicted as any drain does it, each with its own grace; what still runs at the end dies unseen. Returns when
    the node is gone, `notice_s` seconds later; :meth:`sandbox.cluster.Sandbox.add_node` gives another one.

    :raises SandboxError: there is no such node.
    """
    processes, end = node_processes(sandbox, name), time.monotonic() + notice_s
    taints = node_named(sandbox, name)["spec"].get("taints") or []
    _patch(sandbox, name, {"spec": {"unschedulable": True, "taints": [*taints, SPOT_TAINT]}})
    for pod in _pods_on(sandbox, name):
        _evict(sandbox, pod)
    time.sleep(max(0.0, end - time.monotonic()))
    for process in reversed(processes):
        _power_off(sandbox, process)
        sandbox.supervisor.remove(process)
    shutil.rmtree(sandbox.site.node_folder(name), ignore_errors=True)
    delete_node(sandbox, name)


def delete_node(sandbox: Sandbox, name: str) -> None:
    """Delete the Node object, as an operator or a cloud does. Its agent runs on unregistered, like a kubelet.

    The pod garbage collector ends the node's pods about a minute later; that time is no flag.

    :raises SandboxError: there is no such node.
    """
    node_named(sandbox, name)
    sandbox.api.request("DELETE", f"/api/v1/nodes/{name}")


def cordon_node(sandbox: Sandbox, name: str) -> None:
    """Let no new pod onto a node."""
    _patch(sandbox, name, {"spec": {"unschedulable": True}})


def uncordon_node(sandbox: Sandbox, name: str) -> None:
    """Let new pods onto a node again."""
    _patch(sandbox, name, {"spec": {"unschedulable": None}})


def press_node(sandbox: Sandbox, name: str, *conditions: str) -> None:
    """Put a node under pressure: the conditions are True, and Kubernetes taints the node against new pods.

    What a kubelet then does to the pods it has is another fault: :func:`sandbox.faults.pods.fail_pod`.

    :param conditions: of `MemoryPressure`, `DiskPressure`, `PIDPressure`; none: `MemoryPressure`.
    :raises SandboxError: there is no such node or pressure.
    """
    _set_pressure(sandbox, name, conditions or ("MemoryPressure",))


def relieve_node(sandbox: Sandbox, name: str) -> None:
    """Take all pressure from a node."""
    _set_pressure(sandbox, name, ())


def drop_gpus(sandbox: Sandbox, name: str) -> None:
    """Leave a node without GPUs to give, as when its device plugin has ended: capacity stays, none is allocatable.

    Pods that run keep theirs. Of kind `containerd` it is the device plugin that ends. Returns when it is so.
    """
    plugin = _device_plugin_of(sandbox, name)
    if plugin is None:
        _patch(sandbox, name, {"status": {"allocatable": {GPU_RESOURCE: "0"}}}, "/status")
        return
    sandbox.supervisor.stop(plugin)
    _await_gpus(sandbox, name, all_of_them=False)


def restore_gpus(sandbox: Sandbox, name: str) -> None:
    """Have a node give all its GPUs again. Returns when it does."""
    plugin = _device_plugin_of(sandbox, name)
    if plugin is None:
        gpus = node_named(sandbox, name)["status"]["capacity"].get(GPU_RESOURCE, "0")
        _patch(sandbox, name, {"status": {"allocatable": {GPU_RESOURCE: gpus}}}, "/status")
        return
    sandbox.supervisor.restart(plugin)
    _await_gpus(sandbox, name, all_of_them=True)


def _device_plugin_of(sandbox: Sandbox, name: str) -> str | None:
    return next((each for each in sandbox.processes_of(name) if each.endswith(DEVICE_PLUGIN)), None)


def _await_gpus(sandbox: Sandbox, name: str, *, all_of_them: bool) -> None:
    def is_so() -> bool:
        status = node_named(sandbox, name)["status"]
        return bool(
            status["allocatable"].get(GPU_RESOURCE) == (status["capacity"][GPU_RESOURCE] if all_of_them else "0")
        )

    wait_for(is_so, NODE_DEADLINE_S, f"node {name} to give {'all' if all_of_them else 'none'} of its GPUs")


def _power_off(sandbox: Sandbox, process: str) -> None:
    # What a machine is to the programs of kind `containerd` has control groups to remove.
    sandbox.supervisor.stop(process, grace_s=None if process.endswith(MACHINE) else 0)


def _set_pressure(sandbox: Sandbox, name: str, conditions: Sequence[str]) -> None:
    tell_agent(sandbox, name, "PUT", "/faults/pressure", {"conditions": list(conditions)})


def _await_back(sandbox: Sandbox, name: str, since: float) -> None:
    """Wait until a node is Ready and has said so after a moment: its word from before means nothing."""

    def is_back() -> bool:
        return _last_beat(sandbox, name) > since and is_node_ready(node_named(sandbox, name))

    wait_for(is_back, NODE_DEADLINE_S, f"node {name} to be Ready again")


def _last_beat(sandbox: Sandbox, name: str) -> float:
    """Give the time of a node's last heartbeat, in seconds since the epoch; 0 before the first one."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    if not sandbox.api.exists(path):
        return 0.0
    lease = sandbox.api.request("GET", path)
    return datetime.datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp()


def _patch(sandbox: Sandbox, name: str, change: object, part: str = "") -> None:
    node_named(sandbox, name)
    sandbox.api.request("PATCH", f"/api/v1/nodes/{name}{part}", change, content_type=MERGE_PATCH)


def _pods_on(sandbox: Sandbox, name: str) -> list[Document]:
    query = {"fieldSelector": f"spec.nodeName={name}"}
    pods: list[Any] = sandbox.api.request("GET", "/api/v1/pods", query=query)["items"]
    return [pod for pod in pods if pod.get("status", {}).get("phase") not in TERMINAL]


def _evict(sandbox: Sandbox, pod: Document) -> None:
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace")}
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/eviction"
    try:
        sandbox.api.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    except ApiError as error:
        # Ended meanwhile, or guarded by a budget: a reclaimed machine waits for neither.
        if error.status not in (http.client.NOT_FOUND, http.client.TOO_MANY_REQUESTS):
            raise
