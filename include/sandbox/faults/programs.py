"""The control plane's programs, stopped, paused and restarted: etcd, API server, controller manager, scheduler."""

from __future__ import annotations

import signal

from sandbox.cluster import Sandbox
from sandbox.faults.names import unknown
from sandbox.startup import PROGRAMS, check_processes
from sandbox.waiting import wait_for

READY_DEADLINE_S = 120.0


def stop_program(sandbox: Sandbox, name: str) -> None:
    """End a program: connections to it are refused.

    :raises SandboxError: no program has this name.
    """
    sandbox.supervisor.stop(_checked(name))


def start_program(sandbox: Sandbox, name: str) -> None:
    """Start a program that was stopped, and wait until the API server is ready. One that runs is restarted.

    :raises SandboxError: no program has this name, it ended again, or it is not ready in time, as when another one is
        still stopped.
    """
    sandbox.supervisor.restart(_checked(name))
    _await_ready(sandbox, name)


def restart_program(sandbox: Sandbox, name: str, *, kill: bool = False) -> None:
    """End a program and start it again, and wait until the API server is ready.

    :param kill: as by a crash, without notice.
    :raises SandboxError: as :func:`start_program`.
    """
    if kill:
        sandbox.supervisor.stop(_checked(name), grace_s=0)
    start_program(sandbox, name)


def pause_program(sandbox: Sandbox, name: str) -> None:
    """Freeze a program: connections to it are taken and not answered.

    :raises SandboxError: no program has this name.
    """
    sandbox.supervisor.signal(_checked(name), signal.SIGSTOP)


def resume_program(sandbox: Sandbox, name: str) -> None:
    """Let a paused program go on, and wait until the API server is ready.

    :raises SandboxError: no program has this name, or it is not ready in time, as when another one is still paused.
    """
    sandbox.supervisor.signal(_checked(name), signal.SIGCONT)
    _await_ready(sandbox, name)


def _await_ready(sandbox: Sandbox, name: str) -> None:
    def is_ready() -> bool:
        check_processes(sandbox.folder, sandbox.supervisor, [name])
        return sandbox.api.is_ready()

    wait_for(is_ready, READY_DEADLINE_S, f"the API server to be ready after {name} is back")


def _checked(name: str) -> str:
    if name not in PROGRAMS:
        raise unknown("program", name, PROGRAMS)
    return name
