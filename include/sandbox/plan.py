"""What a cluster that is to be started is: its nodes, its times, its version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.binaries import DEFAULT_VERSION, VERSION_VARIABLE, Source, control_plane
from sandbox.errors import SandboxError
from sandbox.lifecycle import NodeLifecycle
from sandbox.nodes import NodeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cluster to start.

    :param sources: the programs of its version.
    """

    nodes: Sequence[NodeRequest]
    lifecycle: NodeLifecycle = field(default_factory=NodeLifecycle)
    sources: tuple[Source, ...] = control_plane(DEFAULT_VERSION)

    @property
    def versions(self) -> dict[str, str]:
        """Give each program's full version."""
        return {source.name: source.version for source in self.sources}


def choose_version(asked: str | None, running: str | None, folder: Path) -> str:
    """Give the minor version of Kubernetes: the one asked for, else the running one, else the newest.

    :param asked: as of the caller; None: `$K8S_VERSION`, where it is set.
    :param running: full version of the cluster that runs in the folder, `v1.34.4`; None: none does.
    :raises SandboxError: another one than that asked for runs.
    """
    asked = asked or os.environ.get(VERSION_VARIABLE)
    own = minor_version(running) if running else None
    if asked and own and asked != own:
        raise SandboxError(
            f"Kubernetes {asked} is asked for and {folder} runs {running}: end it with `python -m sandbox down`, "
            "or give another state folder"
        )
    return asked or own or DEFAULT_VERSION


def minor_version(version: str) -> str:
    """Give the minor version of a full one: `1.37` of `v1.37.2`."""
    return ".".join(version.removeprefix("v").split(".")[:2])
