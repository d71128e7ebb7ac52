"""Seeing work through though whoever awaits it is cancelled again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import Any, Final, TypeVar

T = TypeVar("T")

# The loop keeps only weak references to tasks; one that goes on alone must not be collected.
_going_on: Final[set[asyncio.Task[Any]]] = set()


async def see_through(work: Coroutine[Any, Any, T], *, limit: float) -> T:
    """Give what a coroutine gives; a cancellation neither reaches it nor ends the wait for it, within a limit.

    Airflow 3.3.2's triggerer cancels a trigger that it ends at every sync, about once a second, until it has ended, and
    so cuts its on_kill off in silence at the first await that takes longer (triggerer_job_runner.py, `to_cancel`).

    :param limit: seconds; after that a cancellation ends the wait, and the work goes on alone.
    :raises asyncio.CancelledError: cancelled after the limit.
    """
    task = asyncio.create_task(work)
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    deadline = monotonic() + limit
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if monotonic() >= deadline:
                raise
    return task.result()
