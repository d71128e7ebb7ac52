"""Reads one container's log over HTTP, and hands on what is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import pods_path
from gpu_training.cluster.log_client import BUFFER_BYTES
from gpu_training.core.log_lines import Batch, Reading, stamp_of, text_of
from gpu_training.core.log_parser import BarMark, LogParser
from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from aiohttp import StreamReader

CATCH_UP_S: Final = 5.0
"""A log that was opened tells within that what was said before."""
TAIL_LINES: Final = 200
"""Last lines of a log that was not read to its end in time."""
_OLD_S: Final = 60.0
"""A line so much older than now was said before somebody began to listen."""
_MISS: Final = " unable to retrieve container logs for "

Sink = Callable[[Batch], None]


@dataclass(slots=True)
class ContainerLog:
    """One container's log.

    :param live_since: since when it is open and tells nothing old, by a monotonic clock; None while it is not open.
    :param news_at: when there was last anything new, by the same clock.
    :param mark: up to which frame a line without an end was told.
    """

    pod: str
    container: str
    reading: Reading
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    live_since: float | None = None
    news_at: float = 0.0
    mark: BarMark = field(default_factory=BarMark)
    is_missed: bool = False
    has_lost_its_place: bool = False

    @property
    def named(self) -> str:
        return f"the log of pod {self.pod}, container {self.container}"

    @property
    def is_live(self) -> bool:
        return self.live_since is not None and monotonic() >= self.live_since + CATCH_UP_S

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


class LogReader:
    """Reads logs of one namespace into a sink.

    :param silence: seconds without a line after which a stream counts as broken.
    """

    def __init__(self, cluster: Cluster, namespace: str, sink: Sink, log: TaskLog, *, silence: float) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._sink = sink
        self._log = log
        self._silence = silence
        self._turn = asyncio.Lock()

    async def read(self, each: ContainerLog, *, follow: bool) -> bool:
        """Read from the position to the end of the stream; whether there was anything new."""
        each.reading.resume()
        parser, any_new = LogParser(mark=each.mark), False
        try:
            async with self._open(each, follow=str(follow).lower(), **_since(each.reading)) as body:
                each.live_since = monotonic()
                async for chunk in body.iter_chunked(BUFFER_BYTES):
                    async with self._turn:
                        any_new |= self._take(each, *parser.feed(chunk))
                        each.mark = parser.mark
                        await asyncio.sleep(0)
        finally:
            each.live_since = None
        rest = parser.end()
        # A stream that was followed may have been cut inside a line, which the next read then says in full.
        if not follow or self._is_miss(each, rest):
            any_new |= self._take(each, rest, None)
        return any_new

    async def read_tail(self, each: ContainerLog) -> None:
        """Hand on the last lines, and say when a part between them and what was read is left out."""
        parser, lines = LogParser(mark=each.mark), list[str]()
        # One more than is given tells whether there is a gap before them.
        async with self._open(each, follow="false", tailLines=str(TAIL_LINES + 1)) as body:
            async for chunk in body.iter_chunked(BUFFER_BYTES):
                lines += parser.feed(chunk)[0]
        lines += parser.end()
        if self._is_miss(each, lines):
            return
        fresh, has_gap = each.reading.last_lines(lines, TAIL_LINES)
        if not fresh:
            return
        if has_gap:
            self._log.warning("a part of %s is left out; its last %d lines follow", each.named, len(fresh))
        self._hand_on(each, fresh)

    def _open(self, each: ContainerLog, **query: str) -> AbstractAsyncContextManager[StreamReader]:
        return self._cluster.stream(
            pods_path(self._namespace, each.pod) + "/log",
            doing=f"read the log of pod {each.pod}",
            query={"container": each.container, "timestamps": "true", **query},
            idle=self._silence,
            is_log=True,
        )

    def _is_miss(self, each: ContainerLog, lines: Sequence[str]) -> bool:
        """Whether an answer that is a success tells that there is no log; said once."""
        if not lines or not lines[0].startswith(_MISS):
            return False
        if not each.is_missed:
            self._log.warning("%s is gone: %s", each.named, text_of(lines[0]))
        each.is_missed = True
        return True

    def _take(self, each: ContainerLog, lines: Sequence[str], frame: str | None) -> bool:
        """Hand on what is new; whether anything was."""
        if self._is_miss(each, lines):
            lines = lines[1:]
        fresh = each.reading.new_lines(lines)
        if each.reading.lost_its_place and not each.has_lost_its_place:
            self._log.warning("%s begins anew since it was read: lines between may be missing", each.named)
        each.has_lost_its_place = each.reading.lost_its_place
        if not fresh and frame is None:
            return False
        self._hand_on(each, fresh, frame)
        return True

    def _hand_on(self, each: ContainerLog, lines: Sequence[str], frame: str | None = None) -> None:
        now, live = self._cluster.clock.now(), each.is_live
        if not live and each.live_since is not None and _is_old(lines, now):
            each.live_since = monotonic()
        each.news_at = monotonic()
        self._sink(Batch(pod=each.pod, container=each.container, lines=lines, frame=frame, live=live, now=now))


def _since(reading: Reading) -> dict[str, str]:
    return {} if reading.since is None else {"sinceTime": reading.since}


def _is_old(lines: Sequence[str], now: float) -> bool:
    moment = next((moment for line in lines if (moment := stamp_of(line)) is not None), None)
    return moment is not None and moment[0] < now - _OLD_S
