"""The five clocks: how long each phase of a training may take. Queue time never eats run time.

Each is kept by whoever waits, from times that Kubernetes wrote down, so that a new watcher goes on where the last one
was. A waiter's clock ends that waiter's wait; the Job goes with the last one. What a Job may take outside of the queue
(`deadline_seconds`, the budget's wall time) is no clock of a waiter's: it ends the Job for all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, TypeGuard

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields

MAXIMUM_CLOCK_S: Final = 30 * 24 * 3600
DEFAULT_QUEUE_S: Final = 24 * 3600
DEFAULT_STARTUP_S: Final = 3600
"""An image of 20 GiB at 10 MiB/s takes half of it."""


_WORK: Final = "work_seconds"


class Clock(StrEnum):
    """Stable names: they reach verdicts, annotations and JSON."""

    QUEUE = "queue"
    """No node yet: suspended, refused, unschedulable."""
    STARTUP = "startup"
    """On a node: image, volumes, init containers."""
    RUN = "run"
    """The training container of one attempt."""
    STALL = "stall"
    """It runs, and has reported no progress."""
    TOTAL = "total"
    """Everything since the Job was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """The limits in seconds; None for no limit.

    :param queue_seconds: of one wait for a node.
    :param startup_seconds: from the node to the training container's start, of one attempt.
    :param run_seconds: of the training container, of one attempt.
    :param stall_seconds: without a progress line, of a running attempt; the first one counts from the start.
    :param total_seconds: since the Job was made.
    """

    queue_seconds: int | None = DEFAULT_QUEUE_S
    startup_seconds: int | None = DEFAULT_STARTUP_S
    run_seconds: int | None = None
    stall_seconds: int | None = None
    total_seconds: int | None = None

    def limit(self, clock: Clock) -> int | None:
        """Give a clock's limit in seconds."""
        limit: int | None = getattr(self, f"{clock}_seconds")
        return limit

    def to_document(self) -> dict[str, int | None]:
        """Give plain data, which :meth:`from_document` reads."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, int | None]) -> Clocks:
        """Give the clocks in a document that :meth:`to_document` gave."""
        return cls(**document)


def parse_clocks(fields: Fields, *, deadline_seconds: int | None) -> Clocks:
    """Give the clocks in a section; `0` means no limit.

    :param deadline_seconds: the spec's; None while it is a template.
    :raises ConfigurationError: a field is wrong, or contradicts another one.
    """
    clocks = Clocks(
        queue_seconds=_limit(fields, "queue_seconds", DEFAULT_QUEUE_S),
        startup_seconds=_limit(fields, "startup_seconds", DEFAULT_STARTUP_S),
        run_seconds=_limit(fields, "run_seconds", 0),
        stall_seconds=_limit(fields, "stall_seconds", 0),
        total_seconds=_limit(fields, "total_seconds", 0),
    )
    fields.finish()
    if deadline_seconds is None:
        return clocks
    least = (clocks.queue_seconds or 0) + deadline_seconds
    if clocks.total_seconds is not None and clocks.total_seconds < least:
        raise ConfigurationError(
            fields.path("total_seconds"),
            clocks.total_seconds,
            f"a training that waits for all of queue_seconds ({clocks.queue_seconds or 'no limit'}) would not have its "
            f"deadline_seconds ({deadline_seconds}) left: at least {least} is allowed, or a shorter queue_seconds",
        )
    return clocks


def _limit(fields: Fields, name: str, default: int) -> int | None:
    return fields.whole(name, default, minimum=0, maximum=MAXIMUM_CLOCK_S, unit="seconds, 0 for no limit") or None


def clocks_annotation(clocks: Clocks, work_seconds: int) -> str:
    """Give what a Job bears of its clocks, and of what it may take outside of the queue (in seconds)."""
    return json.dumps({**clocks.to_document(), _WORK: work_seconds})


def work_seconds_of(annotation: str) -> int | None:
    """Give what a Job may take outside of the queue, in seconds, by what it bears; None when that can not be told."""
    value = _read(annotation).get(_WORK)
    return value if _is_limit(value) else None


def clocks_of(annotation: str) -> Clocks:
    """Give the clocks that a Job bears; the default ones where it bears none, or somebody wrote something else."""
    body = _read(annotation)
    known = {name: body[name] for name in Clocks.__dataclass_fields__ if name in body}
    limits = {name: value for name, value in known.items() if value is None or _is_limit(value)}
    return Clocks(**limits) if limits.keys() == known.keys() else Clocks()


def _is_limit(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 < value <= MAXIMUM_CLOCK_S


def _read(annotation: str) -> dict[str, object]:
    try:
        body = json.loads(annotation)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}
