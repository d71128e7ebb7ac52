"""pytest fixtures: one whole stack for a session; a conftest.py imports them by name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from stack.lifecycle import Stack
from stack.screen import PlainScreen
from stack.steps import Steps

__all__ = ["stack"]


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Give a stack that is up; it ends with the session, or with the test process however that ends."""
    stack = Stack.up(tmp_path_factory.mktemp("stack"), Steps(PlainScreen()), owner_pid=os.getpid())
    yield stack
    stack.down()
