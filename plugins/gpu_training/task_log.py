"""What our code asks of a logger: Airflow's and the standard library's both give it."""

from __future__ import annotations

from typing import Protocol


class TaskLog(Protocol):
    """A logger whose messages are %-formatted with their arguments."""

    def debug(self, message: str, /, *args: object) -> object: ...

    def info(self, message: str, /, *args: object) -> object: ...

    def warning(self, message: str, /, *args: object) -> object: ...


class MarkedLog(TaskLog, Protocol):
    """A task log whose records hold fields besides their message, as Airflow's do; the standard library's do not.

    Airflow shows the field `loc` to who asks for the source of a record only.
    """

    def info(self, message: str, /, *args: object, loc: str = ...) -> object: ...

    def warning(self, message: str, /, *args: object, loc: str = ...) -> object: ...
