"""Has Airflow mask in task logs what a training's pods may know of its connections, whoever else asked for those."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from gpu_training.task_log import TaskLog

_WITHIN_S: Final = 60.0
"""The first question of a process has Airflow build an API within it: seconds, and ten times that on a busy machine."""
_loading: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Task[None]]]] = WeakKeyDictionary()


async def mask_secrets_of(conn_ids: Iterable[str], log: TaskLog) -> None:
    """Have what is secret in these connections masked in the task logs of this process, before pods are listened to.

    Airflow masks a connection's secrets in a process once somebody there has asked for it: the operator does so on a
    worker, and no triggerer knows. Each connection is asked for once in a process, all of them at once. One that can
    not be read within a minute is a warning: what pods say of it is shown, until it is read after all.
    """
    await asyncio.gather(*(_mask(conn_id, log) for conn_id in dict.fromkeys(conn_ids)))


async def _mask(conn_id: str, log: TaskLog) -> None:
    of_loop = _loading.setdefault(asyncio.get_running_loop(), {})
    task = of_loop.get(conn_id)
    if task is None:
        task = of_loop[conn_id] = asyncio.create_task(asyncio.to_thread(_ask_for, conn_id))
        task.add_done_callback(partial(_forget_failed, of_loop, conn_id))
    try:
        # Others wait for it, too. One that hangs is left to it: each further one would take a thread from all others.
        done, _ = await asyncio.wait({task}, timeout=_WITHIN_S)
        if not done:
            raise TimeoutError(f"no answer within {_WITHIN_S:g} s")
        task.result()
    except Exception as error:  # of whatever kind: secrets backends are the deployment's own
        log.warning("The secrets of connection %s are not masked in what the pods say: %r", conn_id, error)


def _forget_failed(of_loop: dict[str, asyncio.Task[None]], conn_id: str, task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is not None:
        of_loop.pop(conn_id, None)


def _ask_for(conn_id: str) -> None:
    from airflow.sdk import Connection
    from airflow.sdk.log import mask_secret

    connection = Connection.get(conn_id)
    # Airflow masks the text of the extras as a whole; a program prints one of them.
    mask_secret(connection.extra_dejson)
