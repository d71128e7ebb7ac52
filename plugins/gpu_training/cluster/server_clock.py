"""The API server's clock, as the Date of its answers tells it.

GPU-seconds, budgets and the ledger compare now with times that the cluster wrote. This machine's own clock may be off,
or jump while a training runs; a budget must not be spent by that.
"""

from __future__ import annotations

import time
from collections.abc import Hashable
from email.utils import parsedate_to_datetime
from typing import Final

_TOLERANCE_S: Final = 1.5
"""An answer's Date is in whole seconds, and the answer takes its time."""


class ServerClock:
    """Goes on by a monotonic clock between answers; before the first one it is this machine's."""

    def __init__(self) -> None:
        self._anchor: tuple[float, float] | None = None

    def now(self) -> float:
        """Give seconds since 1970."""
        if self._anchor is None:
            return time.time()
        told, at = self._anchor
        return told + time.monotonic() - at

    def hear(self, date: str) -> None:
        """Take an answer's Date header into account; one that is none is passed over."""
        try:
            told = parsedate_to_datetime(date).timestamp() + 0.5
        except (TypeError, ValueError, OverflowError):
            return
        if self._anchor is None and abs(time.time() - told) <= _TOLERANCE_S:
            told = time.time()  # finer than whole seconds
        elif self._anchor is not None and abs(self.now() - told) <= _TOLERANCE_S:
            return
        self._anchor = told, time.monotonic()


_clocks: Final[dict[Hashable, ServerClock]] = {}


def clock_of(address: Hashable) -> ServerClock:
    """Give the clock of an API server, the same one for everybody in this process who reaches it the same way."""
    return _clocks.setdefault(address, ServerClock())
