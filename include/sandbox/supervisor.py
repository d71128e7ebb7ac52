"""The client of a supervisor: one supervisor process a state folder, which starts, ends and never loses its processes.

Whatever is started through it, and whatever that starts in turn, ends with it: on :meth:`Supervisor.shutdown`, when its
owner dies however it dies, and when its folder is removed. Killed itself with SIGKILL, its direct children die at once
and the rest at the next start (:func:`clean_stale`). Standard library only, Linux only.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.process_spec import RECORD_NAME, SOCKET_NAME, STATE_VARIABLE, ProcessSpec, ProcessStatus, SupervisorError
from sandbox.processes import (
    POLL_S,
    Process,
    boot_id,
    has_variables,
    is_alive,
    kill_all,
    own_line,
    read_process,
    snapshot,
    with_descendants,
)

__all__ = ["STATE_VARIABLE", "ProcessSpec", "ProcessStatus", "Supervisor", "SupervisorError", "clean_stale"]

LOG_NAME = "supervisor.log"
START_DEADLINE_S = 10.0
ANSWER_DEADLINE_S = 10.0
END_DEADLINE_S = 30.0


class Supervisor:
    """A handle on the supervisor of a state folder; any number of programs may hold one.

    :raises SupervisorError: from every method, when the supervisor is gone or refuses; the message says what.
    """

    def __init__(self, folder: Path, pid: int, start: int) -> None:
        self.folder = folder
        self.pid = pid
        self._start = start

    @classmethod
    def start(cls, folder: Path, *, owner_pid: int | None) -> Supervisor:
        """Start the folder's supervisor, after what a killed one left behind has been ended; one that runs is taken.

        :param owner_pid: when this process ends, in whatever way, so does everything; None: runs until `shutdown`.
        """
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with _one_starter(folder):
            if running := cls.attach(folder):
                return running
            clean_stale(folder)
            _launch(folder, owner_pid)
            if started := cls.attach(folder):
                return started
        raise SupervisorError(f"the supervisor of {folder} does not answer: see {folder / LOG_NAME}")

    @classmethod
    def attach(cls, folder: Path) -> Supervisor | None:
        """Give the folder's supervisor; None when none is alive and answering."""
        folder = folder.resolve()
        record = _read_record(folder)
        if record is None or not is_alive(*record["supervisor"]):
            return None
        handle = cls(folder, *record["supervisor"])
        try:
            handle._ask("status")
        except SupervisorError:
            return None
        return handle

    def run(self, spec: ProcessSpec) -> int:
        """Start a process and give its pid; a name that still runs is refused, one that ended is started anew."""
        return int(self._ask("run", spec=spec.to_document()))

    def stop(self, name: str, *, grace_s: float | None = None) -> None:
        """End a process and all it started: SIGTERM to it, after its grace or its end SIGKILL to what is left."""
        self._ask("stop", wait_s=END_DEADLINE_S + (grace_s or 0), name=name, grace_s=grace_s)

    def remove(self, name: str) -> None:
        """Stop a process, if it runs, and forget it."""
        self._ask("remove", wait_s=END_DEADLINE_S, name=name)

    def signal(self, name: str, signum: int) -> None:
        """Send a signal to the process itself, not to what it started."""
        self._ask("signal", name=name, signum=int(signum))

    def restart(self, name: str, *, alone: bool = False) -> int:
        """Stop a process if it runs, start it again from the same spec, give the new pid.

        :param alone: kill the process itself, without notice; what it started runs on and still is its own.
        """
        return int(self._ask("restart", wait_s=END_DEADLINE_S, name=name, alone=alone))

    def release(self) -> None:
        """Outlive the owner from now on."""
        self._ask("release")

    def status(self) -> dict[str, ProcessStatus]:
        """Give how each process stands, in the order in which they were started; those that ended too."""
        return {name: ProcessStatus(**fields) for name, fields in self._ask("status").items()}

    def shutdown(self) -> None:
        """End everything, the last started first, then the supervisor itself; returns when all are gone."""
        self._ask("shutdown", wait_s=None)
        deadline = time.monotonic() + END_DEADLINE_S
        while is_alive(self.pid, self._start):
            if time.monotonic() > deadline:
                raise SupervisorError(f"supervisor {self.pid} of {self.folder} said good-bye and still runs")
            time.sleep(POLL_S)

    def _ask(self, command: str, *, wait_s: float | None = ANSWER_DEADLINE_S, **arguments: Any) -> Any:
        try:
            with _connected(self.folder, wait_s) as connection:
                connection.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
                answer = connection.makefile().readline()
        except OSError as error:
            raise SupervisorError(f"the supervisor of {self.folder} can not be reached: {error}") from error
        if not answer:
            raise SupervisorError(f"the supervisor of {self.folder} ended during {command}: see {LOG_NAME} there")
        document = json.loads(answer)
        if "error" in document:
            raise SupervisorError(document["error"])
        return document["result"]


def clean_stale(folder: Path) -> list[int]:
    """End what a killed supervisor of this folder left running; nothing while a supervisor answers.

    Leftovers are known by recorded pid and start time, by the session that a recorded process led (programs that
    rewrite their title destroy their environment in /proc), and by the environment variable. What they started goes
    with them.

    :returns: the pids ended.
    :raises ProcessError: some could not be ended.
    """
    folder = folder.resolve()
    if Supervisor.attach(folder):
        return []
    record = _read_record(folder) or {"supervisor": [0, 0], "processes": []}
    recorded = {pid: start for pid, start in [record["supervisor"], *record["processes"]] if pid}

    def is_leftover(process: Process, processes: Mapping[int, Process]) -> bool:
        if recorded.get(process.pid) == process.start:
            return True
        leader = processes.get(process.session)
        led = process.session in recorded and process.start >= recorded[process.session]
        if led and (leader is None or leader.start == recorded[process.session]):
            return True
        return has_variables(process.pid, {STATE_VARIABLE: str(folder)})

    def leftovers() -> list[Process]:
        processes = snapshot()
        mine = own_line(processes)
        roots = [each for each in processes.values() if each.pid not in mine and is_leftover(each, processes)]
        return [each for each in with_descendants(roots, processes) if each.pid not in mine]

    ended = kill_all(leftovers, deadline_s=END_DEADLINE_S)
    for name in (SOCKET_NAME, RECORD_NAME):
        (folder / name).unlink(missing_ok=True)
    return ended


@contextmanager
def _one_starter(folder: Path) -> Iterator[None]:
    """Hold off other starters of this folder; the lock goes with its holder, even a killed one."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _connected(folder: Path, wait_s: float | None) -> Iterator[socket.socket]:
    """Connect through the folder's descriptor: a socket's path may only have 107 bytes (unix(7)), a folder's more."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(wait_s)
            connection.connect(f"/proc/self/fd/{descriptor}/{SOCKET_NAME}")
            yield connection
    finally:
        os.close(descriptor)


def _read_record(folder: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads((folder / RECORD_NAME).read_text())
    except (OSError, ValueError):
        return None
    return record if record.get("boot") == boot_id() else None


def _launch(folder: Path, owner_pid: int | None) -> None:
    arguments = [str(folder)]
    if owner_pid is not None:
        owner = read_process(owner_pid)
        if owner is None:
            raise SupervisorError(f"owner_pid {owner_pid} does not run: give the pid of a running process or None")
        arguments += [str(owner.pid), str(owner.start)]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(Path(__file__).resolve().parent.parent),
        STATE_VARIABLE: str(folder),
    }
    with (folder / LOG_NAME).open("ab") as log:
        # -S: without site-packages it starts in a fraction of the time, and keeps to the standard library.
        subprocess.run(
            [sys.executable, "-S", "-m", "sandbox.supervision", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
            timeout=START_DEADLINE_S,
        )
