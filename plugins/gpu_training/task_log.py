"""What our code asks of a logger: Airflow's and the standard library's both give it."""

from __future__ import annotations

from typing import Protocol


class TaskLog(Protocol):
    """A logger whose messages are %-formatted with their arguments."""

    def debug(self, message: str, /, *args: object) -> object: ...

    def info(self, message: str, /, *args: object) -> object: ...

    def warning(self, message: str, /, *args: object) -> object: ...
