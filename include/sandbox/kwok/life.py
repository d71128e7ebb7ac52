"""What becomes of a pod on a node of kind `kwok`: its annotations tell, so each pod may have a life of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from sandbox.errors import SandboxError

PREFIX = "gpu-training.io/life-"
PENDING = f"{PREFIX}pending-s"
RUN = f"{PREFIX}run-s"
RUN_AT_MOST = f"{PREFIX}run-at-most-s"
ENDING = f"{PREFIX}ending"
EXIT_CODE = f"{PREFIX}exit-code"
MESSAGE = f"{PREFIX}message"
STOP = f"{PREFIX}stop-s"

LARGEST_EXIT_CODE = 255


class Ending(StrEnum):
    """How a pod ends that nobody deleted."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodLife:
    """The life of a pod from the moment when it has a node. Times are seconds.

    :param pending_s: until it runs.
    :param run_s: how long it runs; None: until it is deleted, as a pod without these annotations does.
    :param run_at_most_s: it runs for a time drawn evenly between `run_s` and this; None: exactly `run_s`.
    :param exit_code: of each container where it ends as Failed, 1 to 255.
    :param message: the termination message of each container.
    :param stop_s: from its deletion to its end, which comes no later than its grace period allows.
    """

    pending_s: float = 0.0
    run_s: float | None = None
    run_at_most_s: float | None = None
    ending: Ending = Ending.SUCCEEDED
    exit_code: int = 1
    message: str = ""
    stop_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("pending_s", "run_s", "run_at_most_s", "stop_s"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise SandboxError(f"{name} is {value!r}: give a number of seconds from 0 up")
        if self.run_at_most_s is not None and (self.run_s is None or self.run_at_most_s < self.run_s):
            raise SandboxError(f"run_at_most_s is {self.run_at_most_s:g} and run_s {self.run_s}: give run_s, no larger")
        if self.ending not in tuple(Ending):
            raise SandboxError(f"ending is {self.ending!r}: known are {', '.join(Ending)}")
        if not 1 <= self.exit_code <= LARGEST_EXIT_CODE:
            raise SandboxError(f"exit_code is {self.exit_code}: give one from 1 to {LARGEST_EXIT_CODE}")

    def annotations(self) -> dict[str, str]:
        """Give the annotations that a pod of this life carries; in a Job they belong to the pod template."""
        told = {
            PENDING: _seconds(self.pending_s),
            RUN: None if self.run_s is None else _seconds(self.run_s),
            RUN_AT_MOST: None if self.run_at_most_s is None else _seconds(self.run_at_most_s),
            ENDING: str(self.ending),
            EXIT_CODE: str(self.exit_code),
            MESSAGE: self.message,
            STOP: _seconds(self.stop_s),
        }
        return {name: value for name, value in told.items() if value}


def _seconds(value: float) -> str:
    """Write a number without exponent, which durations of Go can not have."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
