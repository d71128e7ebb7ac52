"""Waiting in an event loop for what has to come, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

DEADLINE_S = 20.0


async def until(holds: Callable[[], object], what: str = "what was waited for", limit: float = DEADLINE_S) -> None:
    """Return as soon as something holds; an assertion fails where it does not within `limit` seconds."""
    deadline = monotonic() + limit
    while not holds():
        assert monotonic() < deadline, f"in vain for {limit} s: {what}"
        await asyncio.sleep(0.01)
