"""The processes of one state folder: start one, wait until it is ready, run one to its end; and why it failed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from sandbox.supervisor import ProcessSpec, ProcessStatus, Supervisor
from stack.errors import StackError

POLL_S = 0.1
_LOG_TAIL_LINES = 25
_HTTP_TIMEOUT_S = 30.0


class Host:
    """The supervisor of a state folder, and its logs.

    :param abandoned: set by whoever gives up, so that no waiting goes on in another thread.
    """

    def __init__(self, supervisor: Supervisor, folder: Path) -> None:
        self.supervisor = supervisor
        self.folder = folder
        self.abandoned = threading.Event()

    def log(self, name: str) -> Path:
        """Give the log file of a process."""
        return self.folder / "logs" / f"{name}.log"

    def start(self, name: str, argv: list[str], environment: Mapping[str, str], *, grace_s: float = 5.0) -> None:
        """Start a process of this name, its working directory the state folder."""
        spec = ProcessSpec(
            name=name,
            argv=tuple(argv),
            environment=environment,
            log=self.log(name),
            cwd=self.folder,
            grace_s=grace_s,
        )
        self.supervisor.run(spec)

    def run_to_end(self, name: str, argv: list[str], environment: Mapping[str, str], *, deadline_s: float) -> None:
        """Run a process to its end.

        :raises StackError: it did not end with 0 in time.
        """
        self.start(name, argv, environment)
        self.wait_for_end(name, deadline_s=deadline_s)
        if (exit_code := self._status(name).exit_code) != 0:
            raise self.failure(name, f"ended with exit code {exit_code}")

    def wait_for_end(self, name: str, *, deadline_s: float) -> None:
        """Wait until a process has ended, in whatever way.

        :raises StackError: it still runs then.
        """
        deadline = time.monotonic() + deadline_s
        while self._status(name).alive:
            self._pause(deadline, name, f"still runs after {deadline_s:g} s")

    def wait_until(self, name: str, ready: Callable[[], bool], *, deadline_s: float) -> None:
        """Wait until a process that was started is ready.

        :raises StackError: it ended, or was not ready in time.
        """
        deadline = time.monotonic() + deadline_s
        while not ready():
            status = self._status(name)
            if not status.alive:
                raise self.failure(name, f"ended with exit code {status.exit_code}")
            self._pause(deadline, name, f"is not ready after {deadline_s:g} s")

    def wait_until_answers(self, name: str, url: str, *, deadline_s: float) -> None:
        """Wait until a process that was started answers a URL with success."""

        def answers() -> bool:
            try:
                return httpx.get(url, timeout=_HTTP_TIMEOUT_S, trust_env=False).is_success
            except httpx.HTTPError:
                return False

        self.wait_until(name, answers, deadline_s=deadline_s)

    def _status(self, name: str) -> ProcessStatus:
        return self.supervisor.status()[name]

    def _pause(self, deadline: float, name: str, complaint: str) -> None:
        if self.abandoned.wait(POLL_S):
            raise StackError(f"{name}: given up, because another part failed or was interrupted")
        if time.monotonic() > deadline:
            raise self.failure(name, complaint)

    def failure(self, name: str, complaint: str) -> StackError:
        """Give the error that says what is wrong with a process, with the end of its log."""
        log = self.log(name)
        lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:] if log.exists() else []
        tail = "\n  ".join(["", *lines]) if lines else " (empty)"
        return StackError(f"{name} {complaint}; the end of {log}:{tail}")
