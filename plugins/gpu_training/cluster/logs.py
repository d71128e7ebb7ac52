"""Follows the logs of all containers of a Job's pods, as they come, into a sink: each line once, whatever breaks.

The API resumes a log by whole seconds only, so a position is the last line's timestamp (in nanoseconds) and how many
lines bore it. A log that can not be read is a warning: it never fails a training.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import pods_path
from gpu_training.core.errors import ClusterError, ClusterRejected, GpuTrainingError
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.pods import ContainerState, PodObservation, observe_pod
from gpu_training.task_log import TaskLog

LONGEST_LINE: Final = 16 * 1024
CUT_MARK: Final = " … [cut: the line is longer]"
SILENCE_S: Final = 300.0
"""A stream that says nothing for so long is opened anew; its position makes that harmless."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_MISS: Final = "unable to retrieve container logs for "
_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
# Colours, cursor movements and titles; https://www.ecma-international.org/publications-and-standards/standards/ecma-48/
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")

CATCH_UP_S: Final = 5.0
"""A log that was opened tells within that what was said before."""
_OLD_S: Final = 60.0
"""A line so much older than now was said before somebody began to listen."""

Sink = Callable[[str, str, str, float], None]
"""Called with pod name, container name, line, and when it was said, in seconds since 1970."""

Moment = tuple[int, int]
"""Seconds since 1970, and nanoseconds."""


class LineReader:
    """Bytes -> lines of bounded length; of a line that was overwritten by carriage returns the last state."""

    def __init__(self) -> None:
        self._rest = b""
        self._cut = False

    def feed(self, chunk: bytes) -> Iterator[str]:
        *lines, rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield self._text(line)
            self._cut = False
        self._rest = rest
        if len(rest) > 4 * LONGEST_LINE:
            self._shorten()

    def end(self) -> Iterator[str]:
        """Give what came without a line end."""
        if self._rest:
            yield self._text(self._rest)
        self._rest, self._cut = b"", False

    def _shorten(self) -> None:
        stamp, _, said = self._rest.partition(b" ")
        _, found, tail = said.rpartition(b"\r")
        if found and len(tail) <= LONGEST_LINE:
            self._rest = stamp + b" " + tail
        else:
            self._rest, self._cut = self._rest[: 2 * LONGEST_LINE], True

    def _text(self, line: bytes) -> str:
        return line.decode(errors="backslashreplace") + (CUT_MARK if self._cut else "")


def clean(line: str) -> str:
    """Give what a terminal would show of a line in the end: the last frame, no control sequences, at most
    LONGEST_LINE characters."""
    frames = [frame for frame in _ANSI.sub("", line.rstrip("\r")).split("\r") if frame]
    text = frames[-1] if frames else ""
    if len(text) > LONGEST_LINE:
        text = text[:LONGEST_LINE] + CUT_MARK
    return text


def split_stamp(line: str) -> tuple[Moment | None, str]:
    """Give a line's moment and the rest; None for a line without a timestamp."""
    found = _STAMP.match(line)
    if found is None:
        return None, line
    try:
        second = int(datetime.fromisoformat(found[1] + found[3].replace("Z", "+00:00")).timestamp())
    except (ValueError, OverflowError):
        return None, line
    return (second, int((found[2] or "0").ljust(9, "0"))), line[found.end() :]


class Position:
    """How far a log was read."""

    def __init__(self) -> None:
        self._moment: Moment | None = None
        self._count = 0
        self._skip = 0

    @property
    def is_at_start(self) -> bool:
        return self._moment is None

    def resume(self) -> str | None:
        """Begin to skip what was read; gives the `sinceTime` to ask for."""
        self._skip = self._count
        if self._moment is None:
            return None
        return datetime.fromtimestamp(self._moment[0], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def is_new(self, moment: Moment | None) -> bool:
        """Whether a line was not read before; it counts as read now."""
        if moment is None:
            return self._skip == 0
        if self._skip and self._moment is not None and moment <= self._moment:
            if moment == self._moment:
                self._skip -= 1
            return False
        self._skip = 0
        self._count = self._count + 1 if moment == self._moment else 1
        self._moment = moment
        return True


@dataclass(slots=True)
class _Follower:
    pod: str
    task: asyncio.Task[None]
    ended: asyncio.Event


class LogFollower:
    """Follows every container of one Job's pods.

    :param sink: takes the lines.
    :param log: takes warnings about logs that could not be read.
    :param silence: seconds without a line after which a log is opened anew: a node that is cut off says nothing, too.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, sink: Sink, log: TaskLog, *, silence: float = SILENCE_S
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._sink = sink
        self._log = log
        self._silence = silence
        self._followers: dict[tuple[str, str], _Follower] = {}
        self._live_since: dict[tuple[str, str], float] = {}

    @property
    def is_caught_up(self) -> bool:
        """Whether the sink has what each training container that runs has said so far, as far as that can be told: its
        log is open, and told nothing old for a while."""
        running = [
            (each.pod, container)
            for (_, container), each in self._followers.items()
            if container == TRAINING_CONTAINER and not each.ended.is_set()
        ]
        return all(self._is_live(key) for key in running)

    def _is_live(self, key: tuple[str, str]) -> bool:
        return monotonic() >= self._live_since.get(key, float("inf")) + CATCH_UP_S

    def update(self, pods: Mapping[str, Mapping[str, Any]], gone_pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Follow what is new in these pods (documents by UID), and learn what has ended.

        :param gone_pods: pods that the API server no longer has, as they were last seen.
        """
        for document in pods.values():
            self._look_at(observe_pod(document))
        for uid in gone_pods:
            for (pod, _), follower in self._followers.items():
                if pod == uid:
                    follower.ended.set()

    def _look_at(self, pod: PodObservation) -> None:
        for container in (*pod.init_containers, *pod.containers):
            if container.started_at is None:
                continue
            follower = self._followers.get((pod.uid, container.name))
            if follower is None:
                follower = self._followers[pod.uid, container.name] = self._start(pod, container.name)
            if container.state is ContainerState.TERMINATED:
                follower.ended.set()

    def _start(self, pod: PodObservation, container: str) -> _Follower:
        ended = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._follow(pod.name, container, ended))
        return _Follower(pod=pod.name, task=task, ended=ended)

    async def drain(self, limit: float) -> None:
        """Wait, at most `limit` seconds, until everything that containers said is in the sink; then stop."""
        running = [follower.task for follower in self._followers.values() if not follower.task.done()]
        if running:
            _, late = await asyncio.wait(running, timeout=limit)
            if late:
                self._log.warning("the end of %d container logs was not there within %g s", len(late), limit)
        await self.stop()

    async def stop(self) -> None:
        """Stop at once."""
        tasks = [follower.task for follower in self._followers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, pod: str, container: str, ended: asyncio.Event) -> None:
        position = Position()
        pause = _FIRST_PAUSE_S
        while True:
            last = ended.is_set()
            try:
                if await self._read(pod, container, position, follow=not last):
                    pause = _FIRST_PAUSE_S
                if last:
                    return
            except GpuTrainingError as error:
                if isinstance(error, ClusterRejected) and not _may_come(error):
                    # A pod that is gone was read to its end, if it was read at all.
                    if error.status != 404 or position.is_at_start:
                        self._log.warning("the log of pod %s, container %s can not be read: %s", pod, container, error)
                    return
                self._log.debug("the log of pod %s, container %s broke: %s", pod, container, error)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    # One last read follows the container's end: the stream may have been cut just before it.
                    await (asyncio.Event() if last else ended).wait()
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    async def _read(self, pod: str, container: str, position: Position, *, follow: bool) -> bool:
        """Read from the position to the end of the stream; whether there was anything new."""
        query = {"container": container, "timestamps": "true", "follow": str(follow).lower()}
        since = position.resume()
        if since is not None:
            query["sinceTime"] = since
        reader, any_new = LineReader(), False
        path = pods_path(self._namespace, pod) + "/log"
        async with self._cluster.stream(
            path, doing=f"read the log of pod {pod}", query=query, idle=self._silence
        ) as body:
            self._live_since[pod, container] = monotonic()
            try:
                async for chunk in body.iter_any():
                    for line in reader.feed(chunk):
                        any_new |= self._take(pod, container, position, line)
            finally:
                del self._live_since[pod, container]
        if not follow:
            # A stream that was followed may have been cut inside a line, which the next read then says in full.
            for line in reader.end():
                any_new |= self._take(pod, container, position, line)
        return any_new

    def _take(self, pod: str, container: str, position: Position, line: str) -> bool:
        moment, text = split_stamp(line)
        if moment is None and line.startswith(_MISS):
            self._log.warning("the log of pod %s, container %s is gone: %s", pod, container, line)
            return False
        if not position.is_new(moment):
            return False
        now = self._cluster.clock.now()
        said_at = now if moment is None else min(now, moment[0] + moment[1] / 1e9)
        if self._is_live((pod, container)):
            said_at = now  # whatever the node's clock says
        if said_at < now - _OLD_S and (pod, container) in self._live_since:
            self._live_since[pod, container] = monotonic()
        self._sink(pod, container, clean(text), said_at)
        return True


def _may_come(error: ClusterError) -> bool:
    # 400: the container is waiting to start, or the node is not known yet.
    return error.status == 400
