"""SIGTERM, noticed at once and acted on where the training can stop cleanly."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType

from trainer.failures import Interrupted


class Interruption:
    """Remembers SIGTERM from :meth:`install` on.

    Installed before anything slow is imported: a container's first process has no default action for SIGTERM, so
    that the kernel drops one that arrives earlier (https://man7.org/linux/man-pages/man7/pid_namespaces.7.html).
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self.requested = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._remember)

    def _remember(self, signum: int, frame: FrameType | None) -> None:
        # Neither locks nor buffered output here: the main thread may hold either just now.
        if not self.requested:
            self.requested = True
            os.write(self._writer, b"!")
            os.write(2, b"SIGTERM: the round in progress is finished, then a last checkpoint is taken\n")

    def wait(self, seconds: float) -> bool:
        """Wait, cut short by SIGTERM; tells whether it has arrived."""
        select.select([self._reader], [], [], max(0.0, seconds))
        return self.requested

    def check(self, doing: str) -> None:
        """Raise Interrupted when SIGTERM has arrived."""
        if self.requested:
            raise Interrupted(f"interrupted by SIGTERM while {doing}")
