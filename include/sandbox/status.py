"""How a sandbox stands: its processes, nodes and pods, as values for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sandbox.api import Api, ApiError, Document
from sandbox.processes import descendants, memory_bytes, snapshot
from sandbox.state import ClusterRecord
from sandbox.supervisor import Supervisor

GPU_RESOURCE = "nvidia.com/gpu"
MEBIBYTE = 1 << 20
SHOWN = 20
"""Nodes, and pods, that a person is shown one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLine:
    """A supervised process.

    :param memory_mib: its own and that of all it started.
    """

    name: str
    pid: int
    alive: bool
    exit_code: int | None
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLine:
    """A Node as the API server has it."""

    name: str
    ready: bool
    gpus: int
    cpu: str
    memory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLine:
    """A pod as the API server has it."""

    namespace: str
    name: str
    phase: str
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxStatus:
    """A sandbox at one moment.

    :param ready: the API server answers that it is.
    :param started: seconds since the epoch.
    """

    folder: str
    api_url: str
    ready: bool
    started: float
    versions: Mapping[str, str]
    ports: Mapping[str, int]
    memory_mib: int
    processes: tuple[ProcessLine, ...]
    nodes: tuple[NodeLine, ...]
    pods: tuple[PodLine, ...]

    def to_document(self) -> dict[str, Any]:
        """Give the JSON form."""
        return asdict(self)

    def describe(self) -> str:
        """Give the lines that a person reads."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        state = "ready" if self.ready else "NOT READY"
        lines = [f"{self.api_url} {state}, {versions}, {self.memory_mib} MiB, state in {self.folder}"]
        for process in self.processes:
            fate = f"pid {process.pid}, {process.memory_mib} MiB" if process.alive else f"ENDED ({process.exit_code})"
            lines.append(f"  process {process.name:<26} {fate}")
        for node in self.nodes[:SHOWN]:
            fate = "Ready" if node.ready else "NOT READY"
            lines.append(f"  node    {node.name:<26} {fate}, {node.gpus} GPU, {node.cpu} CPU, {node.memory}")
        states = Counter("Ready" if node.ready else "NOT READY" for node in self.nodes[SHOWN:])
        lines += _summary("node", states)
        for pod in self.pods[:SHOWN]:
            name = f"{pod.namespace}/{pod.name}"
            lines.append(f"  pod     {name:<26} {pod.phase} on {pod.node or 'no node'}")
        return "\n".join([*lines, *_summary("pod", Counter(pod.phase for pod in self.pods[SHOWN:]))])


def read_status(folder: Path, record: ClusterRecord, supervisor: Supervisor, api: Api) -> SandboxStatus:
    """Look at a sandbox; an API server that does not answer leaves nodes and pods out."""
    ready = api.is_ready()
    processes = _processes(supervisor)
    try:
        nodes = api.request("GET", "/api/v1/nodes")["items"] if ready else []
        pods = api.request("GET", "/api/v1/pods")["items"] if ready else []
    except ApiError:
        ready, nodes, pods = False, [], []
    return SandboxStatus(
        folder=str(folder),
        api_url=record.api_url,
        ready=ready,
        started=record.started,
        versions=record.versions,
        ports=record.ports,
        memory_mib=sum(process.memory_mib for process in processes) + memory_bytes(supervisor.pid) // MEBIBYTE,
        processes=processes,
        nodes=tuple(map(_node_line, nodes)),
        pods=tuple(map(_pod_line, pods)),
    )


def is_node_ready(node: Document) -> bool:
    """Tell whether a Node's condition says so; an unknown one does not."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _summary(kind: str, states: Counter[str]) -> list[str]:
    told = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return [f"  {kind:<7} and {states.total()} more: {told}"] if states else []


def _processes(supervisor: Supervisor) -> tuple[ProcessLine, ...]:
    running = snapshot()
    lines = []
    for name, status in supervisor.status().items():
        family = [status.pid, *(each.pid for each in descendants(status.pid, running))] if status.alive else []
        memory = sum(map(memory_bytes, family)) // MEBIBYTE
        line = ProcessLine(name=name, pid=status.pid, alive=status.alive, exit_code=status.exit_code, memory_mib=memory)
        lines.append(line)
    return tuple(lines)


def _node_line(node: Document) -> NodeLine:
    capacity = node.get("status", {}).get("capacity", {})
    return NodeLine(
        name=node["metadata"]["name"],
        ready=is_node_ready(node),
        gpus=int(capacity.get(GPU_RESOURCE, 0)),
        cpu=capacity.get("cpu", "?"),
        memory=capacity.get("memory", "?"),
    )


def _pod_line(pod: Document) -> PodLine:
    return PodLine(
        namespace=pod["metadata"]["namespace"],
        name=pod["metadata"]["name"],
        phase=pod.get("status", {}).get("phase", "Unknown"),
        node=pod["spec"].get("nodeName"),
    )
