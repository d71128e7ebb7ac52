"""The agent's side of a container's process: start it through its shim, signal it, await its end, find it again.

Every container has a shim (:mod:`sandbox.agent.shim`) for parent. It keeps writing the log and will write down the exit
code even while no agent runs, so a restarted agent loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.agent.launcher import Launcher, LaunchError
from sandbox.agent.namespaces import required_flags
from sandbox.agent.shim import birth_of

UNKNOWN_EXIT = 137
"""Exit code of a container whose shim was killed: nobody saw its end."""


class StartError(Exception):
    """The container's program could not be started; the message is worded as the container runtime's."""


class ViewError(Exception):
    """The container's file system can not be made here; the message says what is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """All that a container is started from.

    :param mounts: `source`, `target`, `read_only` of what the container sees at paths of its own.
    :param private: give it namespaces of its own (mounts, processes, host name); without, no mounts.
    :param host_name: its host name; empty: the machine's.
    :param record: what the agent wants to find again after a restart.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    working_directory: str
    private: bool
    mounts: Sequence[Mapping[str, Any]] = ()
    host_name: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a container ended.

    :param seen: False when its shim was killed and nobody knows.
    :param fault: why its program did not start; None: it did.
    """

    exit_code: int
    started_ns: int | None
    finished_ns: int | None
    seen: bool = True
    fault: str | None = None


class ContainerProcess:
    """A container that was started."""

    def __init__(self, folder: Path, state: Mapping[str, Any]) -> None:
        self._folder = folder
        self.started_ns: int = state["started_ns"]
        self._ended = asyncio.Event()
        self._pidfd = -1
        try:
            self._pidfd = os.pidfd_open(state["pid"])
        except ProcessLookupError:
            self._ended.set()
            return
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_end)
        if birth_of(state["pid"]) != state["birth"]:
            # It has ended, and the pid may already be another's.
            self._on_end()

    @classmethod
    async def start(
        cls, launcher: Launcher, folder: Path, spec: LaunchSpec, namespaces: PodNamespaces | None = None
    ) -> ContainerProcess:
        """Start the container in its (empty, existing) folder.

        :raises StartError: when its program does not start.
        :raises ViewError: when its mounts are not possible.
        """
        (folder / "stage").mkdir(exist_ok=True)
        document = {
            "command": list(spec.command),
            "environment": dict(spec.environment),
            "working_directory": spec.working_directory,
            "private": spec.private,
            "mounts": [dict(one) for one in spec.mounts],
            "host_name": spec.host_name,
            "record": dict(spec.record),
            "log": "log",
            "stage": str(folder / "stage"),
        }
        (folder / "spec.json").write_text(json.dumps(document))
        try:
            report = await launcher.launch("shim", folder, namespaces.descriptors if namespaces else {})
        except LaunchError as error:
            raise ViewError(str(error)) from error
        if "fault" in report:
            raise (StartError if report["fault"] == "exec" else ViewError)(report["message"])
        return cls(folder, report)

    @classmethod
    def find(cls, folder: Path) -> ContainerProcess | None:
        """Return the container that an earlier agent started in the folder, or None when it no longer runs."""
        try:
            state = json.loads((folder / "state.json").read_text())
        except (OSError, ValueError):
            return None
        if birth_of(state["pid"]) != state["birth"]:
            return None
        return cls(folder, state)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._ended.set()

    async def wait(self) -> Exit:
        """Return how the container ended, once it has."""
        await self._ended.wait()
        return read_exit(self._folder)

    async def execute(self, launcher: Launcher, command: Sequence[str], timeout_s: float) -> dict[str, Any]:
        """Run one more program in the container; give what :mod:`sandbox.agent.executing` reports.

        :raises LaunchError: when that could not even be tried.
        """
        return await launcher.launch("executing", self._folder, {}, command=list(command), timeout_s=timeout_s)

    def terminate(self) -> None:
        """Send SIGTERM to the container's program."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the container with everything it started."""
        self._signal(signal.SIGUSR1)

    def _signal(self, signum: signal.Signals) -> None:
        if not self._ended.is_set():
            signal.pidfd_send_signal(self._pidfd, signum)


def read_exit(folder: Path) -> Exit:
    """Return how the container of a folder ended, by what its shim wrote."""
    try:
        document = json.loads((folder / "exit.json").read_text())
    except (OSError, ValueError):
        return Exit(exit_code=UNKNOWN_EXIT, started_ns=None, finished_ns=None, seen=False)
    return Exit(
        exit_code=document.get("exit_code", 128),
        started_ns=document.get("started_ns"),
        finished_ns=document["finished_ns"],
        fault=document.get("message"),
    )


class PodNamespaces:
    """The namespaces that a pod's containers start from: they hold its memory volumes."""

    def __init__(self, descriptors: Mapping[str, int]) -> None:
        self.descriptors = descriptors

    @classmethod
    async def open(cls, launcher: Launcher, folder: Path, volumes: Mapping[str, int | None]) -> PodNamespaces:
        """Mount a tmpfs on each folder, seen by the pod's containers alone.

        :param volumes: size in bytes by folder; None: half of the machine's memory.
        :raises ViewError: when that is not possible here.
        """
        hold, release = os.pipe()
        try:
            report = await launcher.launch("holder", folder, {"hold": hold}, volumes=dict(volumes))
            if "fault" in report:
                raise ViewError(report["message"])
            names = ("mnt",) if required_flags() == 0 else ("user", "mnt")
            return cls({name: os.open(f"/proc/{report['pid']}/ns/{name}", os.O_RDONLY) for name in names})
        except LaunchError as error:
            raise ViewError(str(error)) from error
        finally:
            os.close(hold)
            os.close(release)

    def close(self) -> None:
        """Let go: the volumes vanish with the last container."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)
