"""What a supervisor and its clients say to each other: what to run, how it stands, where they meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from sandbox.processes import ProcessError

STATE_VARIABLE = "GPU_TRAINING_STATE"
"""Environment variable that every process below a supervisor carries; its value is the state folder."""

SOCKET_NAME = "supervisor.sock"
RECORD_NAME = "supervisor.json"


class SupervisorError(ProcessError):
    """The supervisor refused, or could not be started or reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """A process to run, in a session of its own and with no standard input.

    :param name: what it is called in `stop`, `restart` and `status`; unique among those that run.
    :param environment: its whole environment; only the supervisor's own two variables are added.
    :param cwd: None: the state folder.
    :param log: file that takes its output, appended to; folders are made.
    :param user: run as this user, which needs root; None keeps the supervisor's.
    :param grace_s: seconds between SIGTERM and SIGKILL.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    cwd: Path | None = None
    user: str | None = None
    grace_s: float = 5.0

    def to_document(self) -> dict[str, Any]:
        """Give the JSON form."""
        document = asdict(replace(self, environment=dict(self.environment)))
        return document | {"log": str(self.log.absolute()), "cwd": str(self.cwd.absolute()) if self.cwd else None}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read the JSON form."""
        cwd = document["cwd"]
        paths = {"log": Path(document["log"]), "cwd": Path(cwd) if cwd else None}
        return cls(**{**document, **paths, "argv": tuple(document["argv"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessStatus:
    """How a process stands.

    :param exit_code: None while it runs; negative is the signal that ended it.
    """

    pid: int
    alive: bool
    exit_code: int | None
