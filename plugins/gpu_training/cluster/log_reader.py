"""Reads one container's log over HTTP, and hands on what is new."""

from __future__ import annotations

import asyncio
import re
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
"""A log that was quiet for so long in all, while it was open, has told what was said before."""
DEAF_S: Final = 30.0
"""A log that could not be opened for so long is caught up with anew."""
TAIL_LINES: Final = 200
"""Last lines of a log that was not read to its end in time."""
_PAUSE_S: Final = 0.2
"""What was said before comes in one go: a shorter wait for it says nothing."""
_IDLE_S: Final = 15.0
"""What is there already comes without such pauses."""
_OLD_S: Final = 60.0
"""A line so much older than now was said before somebody began to listen."""
_CUT_STAMP: Final = re.compile(r"[0-9TZ:.+ -]*")
_MISS: Final = " unable to retrieve container logs for "

Sink = Callable[[Batch], None]


@dataclass(slots=True)
class ContainerLog:
    """One container's log.

    :param deaf_s: seconds without an open stream after which it is caught up with anew.
    :param quiet_s: seconds in all that it had nothing unread, or told what is not old, however often it was opened.
    :param counted_at: until when they are counted, by a monotonic clock.
    :param lasted_s: for how long its last stream was open.
    :param opened_at: since when it is open, by the same clock.
    :param waits_since: since when its stream has nothing unread, by the same clock; None while there is something.
    :param closed_at: since when it is not open, by the same clock; None while it is.
    :param news_at: when there was last anything new, by the same clock.
    :param is_whole: whether the last stream of it was read to its end.
    :param waits_for_turn: whether it is read as soon as other logs are read to their ends.
    :param mark: up to which frame a line without an end was told.
    """

    pod: str
    container: str
    reading: Reading
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    deaf_s: float = DEAF_S
    quiet_s: float = 0.0
    counted_at: float = 0.0
    lasted_s: float = 0.0
    opened_at: float = 0.0
    waits_since: float | None = None
    closed_at: float | None = 0.0
    news_at: float = 0.0
    is_whole: bool = False
    waits_for_turn: bool = False
    mark: BarMark = field(default_factory=BarMark)
    is_missed: bool = False
    is_node_heard: bool = False
    has_lost_its_place: bool = False

    @property
    def named(self) -> str:
        return f"the log of pod {self.pod}, container {self.container}"

    @property
    def is_live(self) -> bool:
        """Whether what was said before somebody began to listen is told, whatever the node's clock says and however
        often the stream is cut; False again when there was none for long."""
        return not self._is_deaf and self.quiet_s + self._pause >= CATCH_UP_S

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def _is_deaf(self) -> bool:
        return self.closed_at is not None and monotonic() >= self.closed_at + self.deaf_s

    @property
    def _pause(self) -> float:
        waited = 0.0 if self.waits_since is None else monotonic() - self.waits_since
        return waited if waited >= _PAUSE_S else 0.0

    def open(self) -> None:
        """Its stream is there."""
        if self._is_deaf:
            self.quiet_s = 0.0
        self.closed_at, self.is_whole = None, False
        self.opened_at = self.counted_at = monotonic()

    def close(self) -> None:
        """Its stream ended, or broke."""
        if self.closed_at is None:
            self.end_wait()
            self.closed_at = monotonic()
            self.lasted_s = self.closed_at - self.opened_at

    def end_wait(self) -> None:
        """There is something to be read."""
        if pause := self._pause:
            self.quiet_s, self.counted_at = self.quiet_s + pause, monotonic()
        self.waits_since = None

    def count(self, *, is_old: bool) -> None:
        """It told something, which was said just before it was told, or long before."""
        now = monotonic()
        if not is_old:
            self.quiet_s += now - self.counted_at
        self.counted_at = now


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

    def log_of(self, pod: str, container: str, reading: Reading) -> ContainerLog:
        """Give a log that is not open yet. Where silence is to be noticed soon, so is a log that can not be opened."""
        return ContainerLog(pod, container, reading, deaf_s=min(DEAF_S, self._silence / 2))

    async def read(self, each: ContainerLog, *, follow: bool) -> bool:
        """Read from the position to the end of the stream; whether there was anything new."""
        each.reading.resume()
        each.lasted_s = 0.0
        parser, any_new, is_offered = LogParser(mark=each.mark), False, False
        try:
            async with self._open(each, follow=str(follow).lower(), **_since(each.reading)) as body:
                each.open()
                while chunk := await _next(each, body):
                    is_offered = True
                    async with self._turn:
                        any_new |= self._take(each, *parser.feed(chunk))
                        each.mark = parser.mark
                        await asyncio.sleep(0)
        finally:
            each.close()
        each.is_whole = True
        if is_offered and not any_new:
            # It ends again where it had ended before.
            each.quiet_s = max(each.quiet_s, CATCH_UP_S)
        rest = self._without_nodes_word(each, parser.end())
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
        lines += self._without_nodes_word(each, parser.end())
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
            idle=self._silence if query["follow"] == "true" else min(self._silence, _IDLE_S),
            is_log=True,
        )

    def _without_nodes_word(self, each: ContainerLog, rest: Sequence[str]) -> Sequence[str]:
        """Give what a stream ended with, if its container said it: the node tells so, without a stamp, why it ends."""
        if not rest or stamp_of(rest[0]) is not None or rest[0].startswith(_MISS):
            return rest
        word = text_of(rest[0])
        if _CUT_STAMP.fullmatch(word) is None and not each.is_node_heard:
            each.is_node_heard = True
            self._log.warning("the node says of %s: %s", each.named, word)
        return ()

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
        each.count(is_old=not lines or _is_old(lines, now))
        each.news_at = monotonic()
        self._sink(Batch(pod=each.pod, container=each.container, lines=lines, frame=frame, live=live, now=now))


async def _next(each: ContainerLog, body: StreamReader) -> bytes:
    """Give what is there, or comes next; nothing at the end."""
    each.waits_since = monotonic()
    chunk = await body.read(BUFFER_BYTES)
    each.end_wait()
    return chunk


def _since(reading: Reading) -> dict[str, str]:
    return {} if reading.since is None else {"sinceTime": reading.since}


def _is_old(lines: Sequence[str], now: float) -> bool:
    moment = next((moment for line in lines if (moment := stamp_of(line)) is not None), None)
    return moment is not None and moment[0] < now - _OLD_S
