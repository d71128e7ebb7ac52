"""How a command ends."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command. Stable: scripts branch by them."""

    DONE = 0
    """Trained, or started without waiting for the end; or what was asked for is shown."""
    FAILED = 1
    REFUSED = 2
    INTERRUPTED = 130


class RefusedError(Exception):
    """The command can not be carried out as given; nothing was started. The message says what to change."""
