"""What becomes of a flood in the task log: the sink of a real waiter, in front of a log that counts."""

from __future__ import annotations

from typing import Any

MIB = 1 << 20


class CountedLog:
    """A task log that keeps nothing.

    :ivar lines: of pods that were told.
    :ivar left_out: lines that were said to be left out.
    :ivar size: characters of all messages.
    :ivar warnings: of whoever reads logs, and what broke.
    """

    def __init__(self) -> None:
        self.lines = self.left_out = self.size = 0
        self.warnings: list[str] = []

    def debug(self, message: str, /, *args: object) -> None:
        self.warnings.append(message % args)

    def info(self, message: str, /, *args: object, loc: str = "") -> None:
        self.size += len(message % args)
        if message == "%s" and loc:
            self.lines += 1

    def warning(self, message: str, /, *args: Any, loc: str = "") -> None:
        self.size += len(message % args)
        if message.startswith("left out: "):
            self.left_out += args[0]
        else:
            self.warnings.append(message % args)

    def describe(self) -> str:
        """Tell what the log holds."""
        return f"{self.lines:,} lines told ({self.size / MIB:.1f} MiB), {self.left_out:,} said to be left out"

    def faults(self, said: int) -> list[str]:
        """Tell how many of the lines that were said are neither told nor said to be left out."""
        wrong = said - self.lines - self.left_out
        return [f"{wrong} lines neither told nor counted"] if wrong else []
