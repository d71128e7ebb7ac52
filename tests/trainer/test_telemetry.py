"""What must reach MLflow is tried again while it is silent, for a bounded time, and not when it says no."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_training.attempt import Interrupted
from trainer.failures import TrackingFailure
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
