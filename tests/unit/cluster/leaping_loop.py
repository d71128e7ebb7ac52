"""An event loop whose time passes only where it would sleep, and where somebody lets it: hours take no time at all."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class LeapingLoop(asyncio.SelectorEventLoop):
    """:ivar now: its time, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(_Leaping(self))

    def time(self) -> float:
        return self.now


class _Leaping(selectors.SelectSelector):
    def __init__(self, loop: LeapingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing is left that would ever happen")
        self._loop.now += max(0.0, timeout)
        return super().select(0)


def leap(scene: Coroutine[Any, Any, None]) -> None:
    """Play a scene in such a loop."""
    with asyncio.Runner(loop_factory=LeapingLoop) as runner:
        runner.run(scene)
