"""What a node of the sandbox is asked to be, and the kinds of nodes there are."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sandbox.agent.namespaces import REMEDY, fault_of_namespaces
from sandbox.binaries import DEFAULT_VERSION
from sandbox.containerd.node import ContainerdNode
from sandbox.control_plane import HOST, Credentials
from sandbox.errors import SandboxError
from sandbox.lifecycle import NodeLifecycle
from sandbox.supervisor import ProcessSpec

GPU_LABELS = {"workload": "gpu-training"}
GPU_TAINTS = ("nvidia.com/gpu=true:NoSchedule",)
IMAGES = Path(__file__).resolve().parent / "images.yaml"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRequest:
    """A node to add.

    :param gpus: how many `nvidia.com/gpu` it counts; none needs to exist.
    :param cpu: capacity, a Kubernetes quantity, as is `memory`.
    :param taints: each `key=value:Effect`.
    :param kind: a name from :data:`KINDS`.
    :param images: the YAML file that says which images exist on it; of kind `process` only.
    :param kubelet: fields of its KubeletConfiguration to be otherwise; of kind `containerd` only.
    """

    name: str = "gpu-1"
    gpus: int = 1
    cpu: str = "4"
    memory: str = "8Gi"
    labels: Mapping[str, str] = field(default_factory=lambda: dict(GPU_LABELS))
    taints: tuple[str, ...] = GPU_TAINTS
    kind: str = "process"
    images: Path = IMAGES
    kubelet: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SandboxError(
                f"node name {self.name!r}: lower case letters, digits and hyphens are allowed, at most 63, "
                "with a letter or digit at both ends"
            )
        if isinstance(self.gpus, bool) or not isinstance(self.gpus, int) or self.gpus < 0:
            raise SandboxError(f"gpus of node {self.name} is {self.gpus!r}: give a whole number from 0 up")
        if self.kind not in KINDS:
            known = f"known are {', '.join(KINDS)}; those of kind kwok come by sandbox.kwok.add_nodes or --kwok-nodes"
            raise SandboxError(f"kind of node {self.name} is {self.kind!r}: {known}")
        if self.kubelet and self.kind != "containerd":
            raise SandboxError(f"kubelet of node {self.name} is given, which is of kind {self.kind} and has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a node is to be: what it needs to know of its cluster.

    :param folder: the sandbox's state folder.
    :param kubernetes: minor version, `1.37`.
    """

    folder: Path
    api_url: str
    credentials: Credentials
    lifecycle: NodeLifecycle = field(default_factory=NodeLifecycle)
    kubernetes: str = DEFAULT_VERSION

    def node_folder(self, name: str) -> Path:
        """Give the folder of one node."""
        return self.folder / "nodes" / name

    def process_name(self, name: str) -> str:
        """Give the name under which what keeps a node's heartbeats is supervised."""
        return f"node-{name}"


class NodeKind(Protocol):
    """A way to be a node."""

    def obstacle(self) -> str | None:
        """Say why this machine can not be such a node and what to do about it; None when it can."""

    def prepare(self, kubernetes: str, progress: Callable[[str], None]) -> None:
        """Make what nodes of this kind need and the cache lacks, which may take minutes.

        :param kubernetes: minor version, `1.37`.
        :raises SandboxError: it can not be had.
        """

    def processes(self, request: NodeRequest, site: Site) -> Sequence[ProcessSpec]:
        """Prepare the node's files and give the processes that make it, in the order in which they start.

        They register the node by themselves. The one that keeps its heartbeats is named by :meth:`Site.process_name`,
        the names of others begin with that and a dot. Asked again while some of them run, it changes nothing for those.
        """


class ProcessNode:
    """A node whose containers are local processes: :mod:`sandbox.agent`."""

    GRACE_S = 10.0

    def obstacle(self) -> str | None:
        """Tell where containers can not have mounts of their own, without which no pod runs."""
        fault = fault_of_namespaces()
        return f"this machine gives a pod no mounts of its own ({fault}): {REMEDY}" if fault else None

    def prepare(self, kubernetes: str, progress: Callable[[str], None]) -> None:
        """Need nothing that is not here."""

    def processes(self, request: NodeRequest, site: Site) -> Sequence[ProcessSpec]:
        """Write the agent's configuration and give the agent."""
        folder = site.node_folder(request.name)
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "agent.json"
        configuration.write_text(json.dumps(self._configuration(request, site, folder), indent=2))
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
            "PYTHONUNBUFFERED": "1",
            "HOME": str(folder),
        }
        return [
            ProcessSpec(
                name=site.process_name(request.name),
                argv=(sys.executable, "-m", "sandbox.agent", str(configuration)),
                environment=environment,
                log=site.folder / "logs" / f"node-{request.name}.log",
                grace_s=self.GRACE_S,
            )
        ]

    def _configuration(self, request: NodeRequest, site: Site, folder: Path) -> dict[str, object]:
        credentials = site.credentials
        client = credentials.user(f"node-{request.name}", f"system:node:{request.name}", "system:nodes")
        serving = credentials.cluster.issue(
            credentials.pair(f"node-{request.name}-serving"),
            common_name=f"system:node:{request.name}",
            organizations=["system:nodes"],
            addresses=[HOST, request.name],
            server=True,
        )
        return {
            "node_name": request.name,
            "api_url": site.api_url,
            "ca_file": str(credentials.cluster.certificate),
            "client_cert": str(client.certificate),
            "client_key": str(client.key),
            "serving_cert": str(serving.certificate),
            "serving_key": str(serving.key),
            "client_ca_file": str(credentials.node_client.certificate),
            "root": str(folder),
            "gpus": request.gpus,
            "cpu": request.cpu,
            "memory": request.memory,
            "labels": dict(request.labels),
            "taints": list(request.taints),
            "images": str(request.images),
            "lease_seconds": site.lifecycle.lease_s,
            "status_seconds": site.lifecycle.status_s,
        }


KINDS: dict[str, NodeKind] = {"process": ProcessNode(), "containerd": ContainerdNode()}
"""Kinds of nodes by name; another kind is one more entry."""


def prepare_nodes(requests: Iterable[NodeRequest], kubernetes: str, progress: Callable[[str], None]) -> None:
    """Make what these nodes need and the cache lacks; refuse those that this machine can not have.

    :param kubernetes: minor version, `1.37`.
    :raises SandboxError: says what is missing and what to do.
    """
    for kind in sorted({request.kind for request in requests}):
        if obstacle := KINDS[kind].obstacle():
            raise SandboxError(
                f"nodes of kind {kind} can run no pods here: {obstacle}; or ask for no nodes (--nodes 0)"
            )
        KINDS[kind].prepare(kubernetes, progress)
