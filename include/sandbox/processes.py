"""What runs on this machine, read from /proc: identities that survive reuse of a pid, families, ends. Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandbox.errors import SandboxError

PROC = Path("/proc")
POLL_S = 0.02


class ProcessError(SandboxError):
    """Processes could not be started, reached or ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process that is running: no zombie, those have ended and only wait to be read.

    :param start: clock ticks from boot to its start; with the pid this names it for good, since pids are reused.
    """

    pid: int
    parent: int
    group: int
    session: int
    start: int


def boot_id() -> str:
    """Give what changes with every boot: pids and start times recorded under another one mean nothing."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def read_process(pid: int) -> Process | None:
    """Read one process; None when it has ended."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in parentheses and may itself hold blanks and parentheses: proc_pid_stat(5).
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid=pid, parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]), start=int(fields[19]))


def snapshot() -> dict[int, Process]:
    """Read every process that this user sees, by pid."""
    pids = [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]
    return {process.pid: process for pid in pids if (process := read_process(pid))}


def is_alive(pid: int, start: int) -> bool:
    """Tell whether the very process with this start time runs, not one that took over its pid."""
    process = read_process(pid)
    return process is not None and process.start == start


def has_variables(pid: int, variables: Mapping[str, str]) -> bool:
    """Tell whether a process was started with all of these environment variables; no, when that can not be read."""
    try:
        entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return all(f"{name}={value}".encode() in entries for name, value in variables.items())


def descendants(pid: int, processes: Mapping[int, Process]) -> list[Process]:
    """Give the children of a process, their children and so on, without itself."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [pid]
    while pending:
        for child in children.get(pending.pop(), ()):
            found.append(child)
            pending.append(child.pid)
    return found


def with_descendants(roots: Iterable[Process], processes: Mapping[int, Process]) -> list[Process]:
    """Give processes and all their descendants, each once."""
    found = {root.pid: root for root in roots}
    for root in list(found.values()):
        found |= {each.pid: each for each in descendants(root.pid, processes)}
    return list(found.values())


def own_line(processes: Mapping[int, Process]) -> set[int]:
    """Give the pids of this process and of its ancestors."""
    line: set[int] = set()
    pid = os.getpid()
    while pid in processes and pid not in line:
        line.add(pid)
        pid = processes[pid].parent
    return line


def send(process: Process, signum: int) -> None:
    """Signal a process, unless it has ended and its pid now is another's."""
    if is_alive(process.pid, process.start):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signum)


def kill_all(find: Callable[[], Iterable[Process]], *, deadline_s: float) -> list[int]:
    """Kill what `find` gives until it gives nothing more, so that what is born meanwhile goes as well.

    :returns: the pids ended, ascending.
    :raises ProcessError: some still run after `deadline_s` seconds.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + deadline_s
    while found := list(find()):
        if time.monotonic() > deadline:
            left = ", ".join(str(process.pid) for process in found)
            raise ProcessError(f"processes {left} still run {deadline_s:g} s after SIGKILL: end them by hand")
        for process in found:
            send(process, signal.SIGKILL)
        ended.update(process.pid for process in found)
        time.sleep(POLL_S)
    return sorted(ended)


def memory_bytes(pid: int) -> int:
    """Give a process's own share of memory, shared pages divided among their users; 0 when that can not be read."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
