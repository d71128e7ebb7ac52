"""What must reach MLflow is tried again while it is silent, for a bounded time, and not when it says no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from gpu_training.attempt import Interrupted
from trainer.failures import TrackingFailure
from trainer.telemetry import Telemetry, persist
from trainer.tracking import Point, RefusedError, ReplacedError

pytestmark = pytest.mark.trainer


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def action() -> str:
        if left:
            raise left.pop(0)
        return "models:/m-1"

    return action


def test_silence_is_waited_out_with_growing_pauses() -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return False

    silent = [TrackingFailure("no answer")] * 6
    assert persist(failing(*silent), patience=1000, wait=wait) == "models:/m-1"
    assert waits == [1, 2, 4, 8, 15, 15]


def test_refusal_is_final() -> None:
    with pytest.raises(RefusedError, match="no such run"):
        persist(failing(RefusedError("no such run")), patience=1000, wait=lambda seconds: pytest.fail("waited"))


def test_patience_ends_and_says_what_is_not_lost() -> None:
    with pytest.raises(TrackingFailure, match=r"within 0\.5 s .*no answer; another try only logs it"):
        persist(failing(TrackingFailure("no answer")), patience=0.5, wait=lambda seconds: pytest.fail("waited"))


def test_sigterm_ends_the_waiting() -> None:
    with pytest.raises(Interrupted, match="waiting for MLflow"):
        persist(failing(TrackingFailure("no answer")), patience=1000, wait=lambda seconds: True)


class Server:
    """A tracking server with one run, as far as its writers go."""

    def __init__(self) -> None:
        self.silent_for: set[str] = set()
        self.writer, self.status = "", ""
        self.opened: list[tuple[str, bool]] = []
        self.steps: list[int] = []


class Run:
    """The run as one writer reaches it."""

    run_id = "r"

    def __init__(self, server: Server, writer: str) -> None:
        self.server, self.writer = server, writer

    def reach(self) -> Server:
        if self.writer in self.server.silent_for:
            raise TrackingFailure("no answer")
        return self.server

    def open(self, parameters: object, *, metric: str, late: bool = False) -> int:
        server = self.reach()
        server.opened.append((self.writer, late))
        server.writer, server.status = self.writer, "RUNNING"
        return max(server.steps, default=0)

    def check_writer(self) -> None:
        if self.reach().writer != self.writer:
            raise ReplacedError(f"taken over by {self.server.writer}")

    def log(self, points: Sequence[Point]) -> None:
        self.reach().steps += [point.step for point in points]

    def end(self, status: str) -> None:
        self.reach().status = status


def begun(server: Server, writer: str) -> Telemetry:
    telemetry = Telemetry(cast(Any, Run(server, writer)), {}, metric="loss")
    telemetry.begin()
    return telemetry


def test_who_never_reached_the_run_takes_it_from_nobody_when_it_leaves() -> None:
    """Its node was cut off, and is back: the pod is told to stop long after another has taken its place."""
    server = Server()
    server.silent_for = {"zombie"}
    zombie, living = begun(server, "zombie"), begun(server, "living")
    zombie.record(1, {"loss": 1.0})
    server.silent_for = set()
    zombie.close("KILLED")
    living.record(1, {"loss": 1.0})
    living.exchange()
    living.stop()
    assert (server.writer, server.status, server.steps) == ("living", "RUNNING", [1])


def test_a_run_that_is_reached_late_is_told_so() -> None:
    server = Server()
    server.silent_for = {"late"}
    late = begun(server, "late")
    server.silent_for = set()
    late.exchange()
    late.stop()
    assert server.opened == [("late", True)]
