"""pytest fixtures: one whole stack for a session, whole again after each test; a conftest.py imports them by name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stack.airflow_services import REPLICAS, SERVICES
from stack.heartbeats import SHORT
from stack.lifecycle import Stack
from stack.restoring import restore
from stack.screen import PlainScreen
from stack.steps import Steps

__all__ = ["replicated_stack", "session_stack", "stack"]


@pytest.fixture(scope="session")
def session_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give the session's stack as it happens to be; it ends with the session, or with the test process.

    Tests ask for `stack` or `replicated_stack`.
    """
    folder = tmp_path_factory.mktemp("stack")
    stack = Stack.up(folder, Steps(PlainScreen()), owner_pid=os.getpid(), heartbeats=SHORT)
    yield stack
    stack.down()


@pytest.fixture
def stack(session_stack: Stack) -> Iterator[Stack]:
    """Give the session's stack with one service of each kind, all healthy; and make it so again after the test.

    What is dead is noticed within seconds: :data:`stack.heartbeats.SHORT`.
    """
    restore(session_stack, SERVICES)
    yield session_stack
    restore(session_stack, SERVICES)


@pytest.fixture
def replicated_stack(session_stack: Stack) -> Iterator[Stack]:
    """Give the session's stack with two schedulers and triggerers, all healthy; and make it so again after the test.

    The second ones run until a test asks for `stack`: tests that share a module share them.
    """
    restore(session_stack, SERVICES + REPLICAS)
    yield session_stack
    restore(session_stack, SERVICES + REPLICAS)
