"""One process under a supervisor: how it is started, how it ended, and all that belongs to it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import pwd
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from sandbox.process_spec import STATE_VARIABLE, ProcessSpec, ProcessStatus
from sandbox.processes import Process, descendants, has_variables, read_process, snapshot, with_descendants

NAME_VARIABLE = "GPU_TRAINING_PROCESS"
"""Environment variable that says under which name a process, or the ancestor that started it, was run."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of all its descendants that lose theirs: prctl(2), PR_SET_CHILD_SUBREAPER."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_the_parent() -> Callable[[], None]:
    """Give what a new process is to call before it executes its program, so that it is killed when this one dies.

    The kernel means the thread that forks, which therefore has to live as long as the process is wanted: prctl(2).
    """
    parent = os.getpid()

    def ask() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return ask


class Child:
    """A process started from a spec, and how it ended."""

    def __init__(self, spec: ProcessSpec, folder: Path) -> None:
        marks = {STATE_VARIABLE: str(folder), NAME_VARIABLE: spec.name}
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        with spec.log.open("ab") as log:
            self._popen = subprocess.Popen(
                spec.argv,
                env={**spec.environment, **marks},
                cwd=spec.cwd,
                user=spec.user,
                group=_group_of(spec.user),
                extra_groups=() if spec.user else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # Called after the change of user, which resets what it asks for.
                preexec_fn=die_with_the_parent(),
            )
        self.spec = spec
        self.pid = self._popen.pid
        process = read_process(self.pid)
        self.start = process.start if process else 0
        self.ended = asyncio.Event()

    def end(self, exit_code: int) -> None:
        # Told to Popen too, or it would wait for a pid that may be another's by then.
        self._popen.returncode = exit_code
        self.ended.set()

    def signal(self, signum: int) -> None:
        """Signal it; it is not reaped while `ended` is unset, so the pid is still its own."""
        if not self.ended.is_set():
            os.kill(self.pid, signum)

    def status(self) -> ProcessStatus:
        return ProcessStatus(pid=self.pid, alive=not self.ended.is_set(), exit_code=self._popen.returncode)

    def family(self) -> list[Process]:
        """Give what it started and what still runs of it: by descent, by session, by its mark in the environment."""
        processes = snapshot()
        leader = processes.get(self.pid)
        reused = leader is not None and leader.start != self.start
        below = set() if reused else {process.pid for process in descendants(self.pid, processes)}
        mark = {NAME_VARIABLE: self.spec.name}
        roots = [
            each
            for each in descendants(os.getpid(), processes)
            if each.pid in below or (each.session == self.pid and not reused) or has_variables(each.pid, mark)
        ]
        # What they started may have another session and a clean environment, as containers do.
        return with_descendants(roots, processes)


def _group_of(user: str | None) -> int | None:
    if user is None:
        return None
    return pwd.getpwnam(user).pw_gid
