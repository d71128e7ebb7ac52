"""How many logs this process has open at once: each holds a connection and its buffers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal
from weakref import WeakKeyDictionary

from gpu_training.task_log import TaskLog

DEFAULT_STREAMS: Final = 256
_LAST_READS: Final = 16
"""Logs read at their containers' ends at once, though others may be followed for days; as many tails beside."""


class LogStreams:
    """Lends streams, first come, first served.

    :param most: logs that are followed at once.
    """

    def __init__(self, most: int = DEFAULT_STREAMS, *, last_reads: int = _LAST_READS) -> None:
        self.most = most
        self._followed = asyncio.Semaphore(most)
        self._last_reads = asyncio.Semaphore(last_reads)
        self._tails = asyncio.Semaphore(last_reads)

    @property
    def is_full(self) -> bool:
        """Whether a log that is to be followed would have to wait."""
        return self._followed.locked()

    @asynccontextmanager
    async def followed(self, ended: asyncio.Event) -> AsyncIterator[bool]:
        """Wait for a stream, and lend it; give False without one when the container ends before there is one."""
        if not await _first(self._followed, ended):
            yield False
            return
        try:
            yield True
        finally:
            self._followed.release()

    @asynccontextmanager
    async def last_read(self) -> AsyncIterator[None]:
        """Lend a stream for what can be read to its end at once."""
        async with self._last_reads:
            yield

    @asynccontextmanager
    async def tail(self) -> AsyncIterator[None]:
        """Lend a stream for last lines alone, however many logs are read to their ends."""
        async with self._tails:
            yield


async def _first(semaphore: asyncio.Semaphore, ended: asyncio.Event) -> bool:
    """Whether the semaphore was acquired before the event; it is preferred when both are there."""
    if not semaphore.locked():
        return await semaphore.acquire()
    got = asyncio.create_task(semaphore.acquire())
    end = asyncio.create_task(ended.wait())
    try:
        await asyncio.wait((got, end), return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        _give_up(semaphore, got)
        raise
    finally:
        end.cancel()
    if got.done():
        return got.result()
    _give_up(semaphore, got)
    return False


def _give_up(semaphore: asyncio.Semaphore, got: asyncio.Task[Literal[True]]) -> None:
    if not got.cancel() and not got.cancelled():
        semaphore.release()


_of_loops: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, LogStreams]] = WeakKeyDictionary()


def streams_of_process(log: TaskLog) -> LogStreams:
    """Give what all trainings of this process share: as many as the option `[gpu_training] log_streams` says.

    :param log: takes a warning about an option that is none.
    """
    loop = asyncio.get_running_loop()
    if loop not in _of_loops:
        _of_loops[loop] = LogStreams(_option(log))
    return _of_loops[loop]


def _option(log: TaskLog) -> int:
    from airflow.sdk.configuration import conf

    said = str(conf.get("gpu_training", "log_streams", fallback=DEFAULT_STREAMS)).strip()
    if said.isascii() and said.isdigit() and int(said) > 0:
        return int(said)
    log.warning(
        "[gpu_training] log_streams is %r; a whole number from 1 up is allowed; %d is used", said, DEFAULT_STREAMS
    )
    return DEFAULT_STREAMS
