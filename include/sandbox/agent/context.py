"""What the parts of one node share, and what the containers of one pod share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.agent.api import ApiClient
from sandbox.agent.config import AgentConfig
from sandbox.agent.events import EventRecorder, Severity
from sandbox.agent.images import ImageStore
from sandbox.agent.launcher import Launcher
from sandbox.agent.objects import ObjectReader
from sandbox.agent.orders import Orders
from sandbox.agent.processes import PodNamespaces

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """The node that pods run on.

    :param orders: faults that it was ordered to have.
    :param services: gives the services of the cluster as they are now.
    :param namespace_fault: why containers can not have mounts of their own on this machine; None: they can.
    """

    config: AgentConfig
    client: ApiClient
    images: ImageStore
    events: EventRecorder
    launcher: Launcher
    orders: Orders
    services: Callable[[], Iterable[Document]]
    allocatable: Mapping[str, str]
    namespace_fault: str | None


@dataclass(slots=True, kw_only=True)
class PodContext:
    """One pod, as its containers see it.

    :param document: the pod as it was when it came; its spec can not change in what concerns containers.
    :param changed: to be called whenever a container's state changed.
    :param running: tells how many of its containers run.
    :param stopping: set when no container may start any more.
    """

    node: NodeContext
    document: Document
    folder: Path
    objects: ObjectReader
    changed: Callable[[], None]
    running: Callable[[], int]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    namespaces: PodNamespaces | None = None

    @property
    def container_count(self) -> int:
        """How many containers share the room for termination messages."""
        spec = self.document["spec"]
        return len(spec["containers"]) + len(spec.get("initContainers") or ())

    @property
    def host_name(self) -> str:
        """The host name of its containers; empty for the machine's."""
        spec = self.document["spec"]
        if spec.get("hostNetwork"):
            return ""
        return str(spec.get("hostname") or self.document["metadata"]["name"])[:63].rstrip("-.")

    def volume_folder(self, name: str) -> Path:
        """Return where a volume of the pod is."""
        return self.folder / "volumes" / name

    def tell(self, severity: Severity, reason: str, message: str, *, field_path: str | None = None) -> None:
        """Post an event about the pod."""
        self.node.events.post(self.document, severity, reason, message, field_path=field_path)

    async def pause(self, seconds: float) -> None:
        """Wait, but no longer than until the pod stops."""
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            return
