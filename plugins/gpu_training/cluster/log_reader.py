"""Reads one container's log over HTTP, and hands on what is new."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import pods_path
from gpu_training.cluster.log_client import BUFFER_BYTES
from gpu_training.core.log_lines import Batch, Reading, stamp_of, text_of
from gpu_training.core.log_liveness import LogLiveness
from gpu_training.core.log_parser import BarMark, LogParser
from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from aiohttp import StreamReader

CATCH_UP_S: Final = 5.0
"""A log that was open for so long, and told nothing of the past, has told what was said before."""
DEAF_S: Final = 30.0
"""A log that could not be opened for so long is caught up with anew."""
TAIL_LINES: Final = 200
"""Last lines of a log that was not read to its end in time."""
_IDLE_S: Final = 15.0
"""What is there already comes without such pauses."""
_CUT_STAMP: Final = re.compile(r"[0-9TZ:.+ -]*")
_MISS: Final = " unable to retrieve container logs for "

Sink = Callable[[Batch], None]


@dataclass(slots=True)
class ContainerLog:
    """One container's log.

    :param liveness: whether it tells what is said now.
    :param ended: set when the container has ended.
    :param gone: set when the API server no longer has the pod; the container has ended then.
    :param lasted_s: for how long its last stream was open.
    :param news_at: when there was last anything new, by a monotonic clock.
    :param is_whole: whether the last stream of it was read to its end.
    :param waits_for_turn: whether it is read as soon as other logs are read to their ends.
    :param mark: up to which frame a line without an end was told.
    """

    pod: str
    container: str
    reading: Reading
    liveness: LogLiveness
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    lasted_s: float = 0.0
    news_at: float = 0.0
    is_whole: bool = False
    waits_for_turn: bool = False
    mark: BarMark = field(default_factory=BarMark)
    is_missed: bool = False
    is_node_heard: bool = False
    is_untold: bool = False
    has_lost_its_place: bool = False

    @property
    def named(self) -> str:
        return f"the log of pod {self.pod}, container {self.container}"

    @property
    def is_live(self) -> bool:
        """Whether what was said before somebody began to listen is told, whatever the node's clock says and however
        often the stream is cut; False again when there was none for long."""
        return self.liveness.is_live(monotonic())

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def next_change(self) -> asyncio.Event:
        """Give what changes next how it is to be read: the container's end, then the pod's, then nothing."""
        return next((each for each in (self.ended, self.gone) if not each.is_set()), asyncio.Event())

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Its stream is there until the block is left; it was read to its end where nothing is raised."""
        self.is_whole, opened_at = False, monotonic()
        self.liveness.open(opened_at)
        try:
            yield
            self.is_whole = True
        finally:
            closed_at = monotonic()
            self.lasted_s = closed_at - opened_at
            self.liveness.close(closed_at, is_whole=self.is_whole)


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
        liveness = LogLiveness(catch_up_s=CATCH_UP_S, deaf_s=min(DEAF_S, self._silence / 2))
        return ContainerLog(pod, container, reading, liveness)

    async def read(self, each: ContainerLog, *, follow: bool) -> bool:
        """Read from the position to the end of the stream; whether there was anything new."""
        each.reading.resume()
        each.lasted_s = 0.0
        parser, any_new = LogParser(mark=each.mark), False
        async with self._open(each, follow=str(follow).lower(), **_since(each.reading)) as body:
            with each.opened():
                async for chunk in body.iter_chunked(BUFFER_BYTES):
                    async with self._turn:
                        any_new |= self._take(each, *parser.feed(chunk))
                        each.mark = parser.mark
                        await asyncio.sleep(0)
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
            self._warn("a part of %s is left out; its last %d lines follow", each.named, len(fresh))
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
            self._warn("the node says of %s: %s", each.named, word)
        return ()

    def _is_miss(self, each: ContainerLog, lines: Sequence[str]) -> bool:
        """Whether an answer that is a success tells that there is no log; said once."""
        if not lines or not lines[0].startswith(_MISS):
            return False
        if not each.is_missed:
            self._warn("%s is gone: %s", each.named, text_of(lines[0]))
        each.is_missed = True
        return True

    def _take(self, each: ContainerLog, lines: Sequence[str], frame: str | None) -> bool:
        """Hand on what is new; whether anything was."""
        if self._is_miss(each, lines):
            lines = lines[1:]
        each.liveness.tell(monotonic(), _behind(lines, self._cluster.clock.now()))
        fresh = each.reading.new_lines(lines)
        if each.reading.lost_its_place and not each.has_lost_its_place:
            self._warn("%s begins anew since it was read: lines between may be missing", each.named)
        each.has_lost_its_place = each.reading.lost_its_place
        if not fresh and frame is None:
            return False
        self._hand_on(each, fresh, frame)
        return True

    def _hand_on(self, each: ContainerLog, lines: Sequence[str], frame: str | None = None) -> None:
        now, live = self._cluster.clock.now(), each.is_live
        each.news_at = monotonic()
        try:
            self._sink(Batch(pod=each.pod, container=each.container, lines=lines, frame=frame, live=live, now=now))
            each.is_untold = False
        except Exception as error:  # a task log whose disk is full, or a fault: none of the stream's
            if not each.is_untold:
                each.is_untold = True
                self._warn("%s is not told to its end: %s: %s", each.named, type(error).__name__, error)

    def _warn(self, message: str, *args: object) -> None:
        # The task log may be what fails; a stream that broke is something else, and would be read again.
        with suppress(Exception):
            self._log.warning(message, *args)


def _since(reading: Reading) -> dict[str, str]:
    return {} if reading.since is None else {"sinceTime": reading.since}


def _behind(lines: Sequence[str], now: float) -> float | None:
    """Give how many seconds ago the newest of some lines was said; None where none tells."""
    moment = next((moment for line in reversed(lines) if (moment := stamp_of(line)) is not None), None)
    return None if moment is None else now - moment[0] - moment[1] / 1e9
