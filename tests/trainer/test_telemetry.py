"""What must reach MLflow is tried again while it is silent, for a bounded time, and not when it says no."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from trainer.failures import Interrupted, TrackingFailure
from trainer.interruption import Interruption
from trainer.telemetry import persist
from trainer.tracking import RefusedError

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


@pytest.fixture
def interruption() -> Iterator[Interruption]:
    before = signal.getsignal(signal.SIGTERM)
    interruption = Interruption()
    interruption.install()
    yield interruption
    signal.signal(signal.SIGTERM, before)


def test_sigterm_is_remembered_cuts_every_wait_short_and_may_come_twice(interruption: Interruption) -> None:
    assert not interruption.wait(0)
    interruption.check("reading the data")
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.wait(60)
    with pytest.raises(Interrupted, match="interrupted by SIGTERM while reading the data"):
        interruption.check("reading the data")
