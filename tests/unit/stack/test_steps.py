"""Steps that run at once: their seconds, and one failure that ends the waiting for all."""

from __future__ import annotations

import threading

import pytest

from stack.steps import Steps, run_together

pytestmark = pytest.mark.unit

PATIENCE_S = 5.0


class Notes:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, step: str, state: str) -> None:
        self.told.append(f"{step}: {state}")

    def finish(self, step: str, seconds: float) -> None:
        self.told.append(f"{step} took {seconds:.0f}")


def test_a_step_that_succeeded_is_timed_and_told() -> None:
    notes = Notes()
    steps = Steps(notes)
    with steps.step("data") as tell:
        tell("half")
    assert notes.told == ["data: started", "data: half", "data took 0"]
    assert steps.seconds == {"data": 0.0}


def test_a_step_that_failed_has_no_seconds() -> None:
    steps = Steps(Notes())
    with pytest.raises(ZeroDivisionError), steps.step("data"):
        1 / 0  # noqa: B018
    assert steps.seconds == {}


def test_parts_run_at_once() -> None:
    met = threading.Barrier(3)
    run_together([lambda: met.wait(PATIENCE_S) and None] * 3, give_up=lambda: None)


def test_the_first_failure_makes_the_others_give_up_and_is_raised() -> None:
    given_up, ended = threading.Event(), threading.Event()

    def wait_long() -> None:
        assert given_up.wait(PATIENCE_S)
        ended.set()
        raise RuntimeError("given up")

    def fail() -> None:
        raise ValueError("no port")

    with pytest.raises(ValueError, match="no port"):
        run_together([wait_long, fail], give_up=given_up.set, patience_s=PATIENCE_S)
    assert ended.is_set()


def test_a_part_that_does_not_give_up_is_left_behind_after_the_patience() -> None:
    forever = threading.Event()

    def fail() -> None:
        raise ValueError("no port")

    try:
        with pytest.raises(ValueError, match="no port"):
            run_together([forever.wait, fail], give_up=lambda: None, patience_s=0.1)  # type: ignore[list-item]
    finally:
        forever.set()
