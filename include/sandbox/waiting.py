"""Waiting for a condition, with a deadline and without hiding what goes wrong meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from sandbox.errors import SandboxError

T = TypeVar("T")
POLL_S = 0.05


class DeadlineError(SandboxError):
    """What was waited for did not come in time."""


def wait_for(condition: Callable[[], T], deadline_s: float, what: str, *, pause_s: float = POLL_S) -> T:
    """Ask again and again until the condition gives something true, and give that.

    :param condition: whatever it raises is raised here at once.
    :param deadline_s: seconds; the condition is asked at least once.
    :param what: what is waited for, for the message.
    :param pause_s: between two times that it is asked.
    :raises DeadlineError: it gave nothing true in time; the message has what it gave last.
    """
    deadline = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            raise DeadlineError(f"waited {deadline_s:g} s for {what}; last seen: {value!r}")
        time.sleep(pause_s)
