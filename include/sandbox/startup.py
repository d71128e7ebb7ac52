"""From nothing to a control plane that serves: all programs at once, on free ports, and told why when one fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from sandbox.api import Api
from sandbox.control_plane import HOST, Credentials, Ports, processes
from sandbox.errors import SandboxError
from sandbox.lifecycle import USUAL, NodeLifecycle
from sandbox.obstacles import MEBIBYTE, free_bytes
from sandbox.supervisor import Supervisor
from sandbox.waiting import wait_for

READY_DEADLINE_S = 180.0
"""Generous: what fails is told at once, and a machine with ten times its load still gets there."""
PORT_TRIES = 5
SHOWN_LINES = 15
IN_USE = "address already in use"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
CLIENTS = ("kube-controller-manager", "kube-scheduler")
"""They give up when the API server takes longer to serve than they wait, as it may on a busy machine."""


class PortTakenError(SandboxError):
    """Another program took a port between our finding it free and our using it."""


def start_control_plane(
    folder: Path,
    binaries: Mapping[str, Path],
    supervisor: Supervisor,
    credentials: Credentials,
    *,
    lifecycle: NodeLifecycle = USUAL,
    find_ports: Callable[[], Ports] = Ports.free,
) -> Ports:
    """Start etcd and the control plane; returns when the API server says that it is ready.

    :raises SandboxError: a program ended, or it takes too long; the message has the end of its log.
    """
    for attempt in range(PORT_TRIES):
        ports = find_ports()
        specs = processes(folder, binaries, ports, credentials, lifecycle)
        for spec in specs:
            supervisor.run(spec)
        api = Api(f"https://{HOST}:{ports.api}", credentials.cluster.certificate, credentials.pair("admin"))

        def is_ready(api: Api = api) -> bool:
            check_processes(folder, supervisor, PROGRAMS)
            return api.is_ready()

        try:
            wait_for(
                is_ready, READY_DEADLINE_S, f"the API server, whose log is {folder / 'logs' / 'kube-apiserver.log'}"
            )
        except PortTakenError:
            if attempt == PORT_TRIES - 1:
                raise
            for spec in reversed(specs):
                supervisor.stop(spec.name)
            shutil.rmtree(folder / "etcd", ignore_errors=True)
            shutil.rmtree(folder / "logs", ignore_errors=True)
        else:
            return ports
    raise AssertionError("the last attempt either returns or raises")


def check_processes(folder: Path, supervisor: Supervisor, names: Collection[str]) -> None:
    """Start again what may end while the API server is not up yet; complain of any other of these that ended.

    :raises SandboxError: a process ended; the message has the end of its log.
    """
    for name, status in supervisor.status().items():
        if status.alive or name not in names:
            continue
        if name in CLIENTS:
            supervisor.restart(name)
            continue
        log = folder / "logs" / f"{name}.log"
        end = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN_LINES:])
        error = PortTakenError if IN_USE in end else SandboxError
        # What a full disk does to a program is not in its log.
        full = f"; the disk of {folder} is full" if free_bytes(folder) < MEBIBYTE else ""
        raise error(f"{name} ended with exit code {status.exit_code}{full}, the end of {log} is:\n{end}")
