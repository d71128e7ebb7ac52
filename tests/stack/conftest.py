from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.stack.trainings import Training, wait_until

from stack.lifecycle import Stack
from stack.testing import replicated_stack, session_stack, stack

__all__ = ["replicated_stack", "session_stack", "stack"]


@pytest.fixture
def begin(session_stack: Stack) -> Iterator[Callable[[int], Training]]:
    """Start trainings that are ended after the test, however it goes; each runs when it is given.

    A test that breaks the stack asks for this before the stack: then trainings are ended when that is whole again.
    """
    begun: list[Training] = []

    def start(rounds: int) -> Training:
        begun.append(Training(session_stack, rounds))
        wait_until(begun[-1].is_training, "the training runs while its task is deferred")
        return begun[-1]

    yield start
    for training in begun:
        if training.run_state() in ("queued", "running"):
            training.mark_run_failed()
            wait_until(lambda training=training: training.run_state() == "failed", "the run has ended")  # type: ignore[misc]
        training.http.close()
