"""A process with all that it started, hit as one: frozen, thawed, killed. What is born meanwhile is hit as well."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from sandbox.processes import Process, kill_all, read_process, send, snapshot, with_descendants

_STOPPED = "T"
_KILL_DEADLINE_S = 10.0
_FREEZE_DEADLINE_S = 5.0
_POLL_S = 0.01


def members(pid: int) -> list[Process]:
    """Give a process that leads a session, its descendants, and what lost its parent and still is in the session.

    The process comes first, if it runs.
    """
    processes = snapshot()
    roots = [process for process in processes.values() if pid in (process.pid, process.session)]
    return sorted(with_descendants(roots, processes), key=lambda process: (process.pid != pid, process.start))


def freeze(pid: int) -> list[Process]:
    """Stop all of a tree with SIGSTOP, parents first, and give it; nothing of it runs when this returns."""
    deadline = time.monotonic() + _FREEZE_DEADLINE_S
    while True:
        found = members(pid)
        running = [process for process in found if not _is_stopped(process)]
        # One that waits for a disk stops only when that has answered.
        if not running or time.monotonic() > deadline:
            return found
        for process in running:
            send(process, signal.SIGSTOP)
        time.sleep(_POLL_S)


def thaw(pid: int) -> None:
    """Let all of a tree go on, children first, so that no parent finds one of them stopped."""
    for process in reversed(members(pid)):
        send(process, signal.SIGCONT)


def kill(pid: int) -> None:
    """Kill all of a tree with SIGKILL, as the end of its machine would: none sees another die.

    :raises sandbox.processes.ProcessError: some could not be killed.
    """
    # A child that leaves the session and whose parent dies is lost to the eye: so none may be born.
    frozen = freeze(pid)
    for process in frozen:
        send(process, signal.SIGKILL)
    kill_all(
        lambda: [process for process in frozen if read_process(process.pid) == process],
        deadline_s=_KILL_DEADLINE_S,
    )


def is_frozen(pid: int) -> bool:
    """Tell whether a process or anything that it started is stopped."""
    return any(_is_stopped(process) for process in members(pid))


def started_at(pid: int) -> float:
    """Give when a process started, in seconds since 1970; 0 when it has ended."""
    process = read_process(pid)
    if process is None:
        return 0.0
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return time.time() - uptime + process.start / os.sysconf("SC_CLK_TCK")


def _is_stopped(process: Process) -> bool:
    try:
        text = Path(f"/proc/{process.pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return text.rpartition(")")[2].split()[0] == _STOPPED
