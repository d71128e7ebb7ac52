"""The Node object: registration, status and lease, as a kubelet keeps them."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.agent.api import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ApiClient,
    ApiError,
    ApiUnavailableError,
    retry_pause,
)
from sandbox.agent.config import AgentConfig, parse_taint
from sandbox.agent.orders import Orders
from sandbox.agent.status import format_time

Document = Mapping[str, Any]

GPU = "nvidia.com/gpu"
LEASE_NAMESPACE = "kube-node-lease"

REPORT_S = 300.0
"""How often the status is written though nothing changed."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}

_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
PRESSURES = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
"""Reason and message of each pressure that a Node can be under."""

logger = logging.getLogger(__name__)


def capacity(config: AgentConfig) -> dict[str, str]:
    """Return what the node counts as its own. All of it can be allocated: the machine's own needs are not counted."""
    amounts = {"cpu": config.cpu, "memory": config.memory, "pods": str(config.pods), "ephemeral-storage": "100Gi"}
    # A node without GPUs has no device plugin, so the resource is not there at all.
    return amounts | ({GPU: str(config.gpus)} if config.gpus else {})


def build_node(
    config: AgentConfig,
    *,
    port: int,
    version: str,
    before: list[Document],
    now_ns: int,
    pressure: Collection[str] = (),
) -> dict[str, Any]:
    """Return the Node document. Pure but for what the machine says of itself.

    :param version: of the API server; the node calls itself the same.
    :param before: conditions that the Node has, which keep their transition times.
    :param pressure: conditions of :data:`PRESSURES` that are True.
    """
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    amounts = capacity(config)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": config.node_name,
            "labels": {
                "kubernetes.io/arch": architecture,
                "kubernetes.io/os": "linux",
                "kubernetes.io/hostname": config.node_name,
                **config.labels,
            },
        },
        "spec": {"taints": [parse_taint(text) for text in config.taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            # No Hostname address: the API server would try to resolve it before it takes the IP.
            "addresses": [{"type": "InternalIP", "address": config.address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            "conditions": _conditions(before, now_ns, pressure),
            "nodeInfo": _node_info(architecture, version),
        },
    }


def _conditions(before: list[Document], now_ns: int, pressure: Collection[str]) -> list[dict[str, str]]:
    known = {condition["type"]: condition for condition in before}
    now = format_time(now_ns)
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": known[kind]["lastTransitionTime"]
            if known.get(kind, {}).get("status") == status
            else now,
        }
        for kind, status, reason, message in (
            (kind, "True", *PRESSURES[kind]) if kind in pressure else (kind, *calm) for kind, *calm in _CONDITIONS
        )
    ]


def _node_info(architecture: str, version: str) -> dict[str, str]:
    return {
        "architecture": architecture,
        "operatingSystem": "linux",
        "kernelVersion": platform.release(),
        "osImage": platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
        if Path("/etc/os-release").exists()
        else "Linux",
        "machineID": _first_line("/etc/machine-id"),
        "systemUUID": _first_line("/etc/machine-id"),
        "bootID": _first_line("/proc/sys/kernel/random/boot_id"),
        "containerRuntimeVersion": "process://1",
        "kubeletVersion": version,
        "kubeProxyVersion": "",
    }


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


class NodeKeeper:
    """Registers the Node and keeps it Ready."""

    def __init__(self, client: ApiClient, config: AgentConfig, orders: Orders) -> None:
        self._client = client
        self._config = config
        self._orders = orders
        self._path = f"/api/v1/nodes/{config.node_name}"
        self._port = 0
        self._version = ""
        self._reported = 0.0
        self.document: dict[str, Any] = {}

    async def register(self, port: int) -> None:
        """Make the Node, or take over the one that is there. Returns once the API server has it.

        :raises ApiError: when the API server refuses for good, for example for another node's certificate.
        """
        self._port = port
        attempt = 0
        while True:
            attempt += 1
            try:
                version = await self._client.request("GET", "/version")
                self._version = version["gitVersion"]
                await self._create_or_take()
                await self._renew_lease()
                return
            except ApiError as error:
                if not error.is_transient and error.code not in (401, 403):
                    raise
                # While the control plane starts, its authorizer does not know of nodes yet.
                if error.code in (401, 403) and attempt > 20:
                    raise
                await retry_pause(attempt, first_s=0.05, longest_s=1.0)
            except ApiUnavailableError:
                await retry_pause(attempt, first_s=0.05, longest_s=1.0)

    async def _create_or_take(self) -> None:
        node = self._build([])
        try:
            self.document = await self._client.request("POST", "/api/v1/nodes", node)
            self._reported = time.monotonic()
        except ApiError as error:
            if error.code != 409:
                raise
            # Taints are an administrator's once the Node exists: NodeRestriction keeps them from us.
            labels = {"metadata": {"labels": node["metadata"]["labels"]}}
            await self._client.request("PATCH", self._path, labels, content_type=MERGE_PATCH)
            await self.refresh(force=True)

    async def refresh(self, *, force: bool = False) -> None:
        """Read the Node, and write its status when it does not say what it should, or has not been told for long.

        Capacity is written at registration only: what somebody patched into it meanwhile stays, as with a kubelet.
        """
        self.document = await self._client.request("GET", self._path)
        wanted = self._build(self.document["status"].get("conditions") or [])["status"]
        said = self.document["status"]
        same = _statuses(said) == _statuses(wanted) and said.get("daemonEndpoints") == wanted["daemonEndpoints"]
        if force or not same or time.monotonic() - self._reported >= REPORT_S:
            kept = () if force else ("capacity", "allocatable")
            change = {"status": {key: value for key, value in wanted.items() if key not in kept}}
            self.document = await self._client.request(
                "PATCH", f"{self._path}/status", change, content_type=STRATEGIC_MERGE_PATCH
            )
            self._reported = time.monotonic()

    async def run(self) -> None:
        """Renew lease and status until cancelled."""
        await asyncio.gather(
            self._repeat(self._renew_lease, self._config.lease_seconds / 4),
            self._repeat(self.refresh, self._config.status_seconds),
        )

    async def _repeat(self, action: Any, seconds: float) -> None:
        failures = 0
        while True:
            await asyncio.sleep(min(seconds, 0.2 * 2**failures) if failures else seconds)
            try:
                await action()
                failures = 0
            except (ApiError, ApiUnavailableError) as error:
                # A Node that was deleted is not made again: like a kubelet, only a new start registers.
                failures = min(failures + 1, 10)
                logger.warning("%s of %s failed: %s", action.__name__, self._config.node_name, error)

    async def _renew_lease(self) -> None:
        name = self._config.node_name
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": self._config.lease_seconds,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        path = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases"
        try:
            await self._client.request("PATCH", f"{path}/{name}", {"spec": spec}, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.code != 404:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.document["metadata"]["uid"]}
            metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await self._client.request("POST", path, {"metadata": metadata, "spec": spec})

    def _build(self, before: list[Document]) -> dict[str, Any]:
        return build_node(
            self._config,
            port=self._port,
            version=self._version,
            before=before,
            now_ns=time.time_ns(),
            pressure=self._orders.pressure,
        )


def _statuses(status: Document) -> dict[str, str]:
    own = {kind for kind, *_ in _CONDITIONS}
    return {c["type"]: c["status"] for c in status.get("conditions") or () if c["type"] in own}
