"""Follows the logs of all containers of a Job's pods, as they come, into a sink: each line once, whatever breaks.

What the bytes mean is read in :mod:`gpu_training.core.log_parser`, and what was read before is passed over by a
:class:`~gpu_training.core.log_lines.Reading`. A log that can not be read is a warning: it never fails a training.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.log_reader import ContainerLog, LogReader, Sink
from gpu_training.cluster.log_streams import LogStreams, streams_of_process
from gpu_training.core.errors import ClusterRejected, GpuTrainingError
from gpu_training.core.log_lines import START, Position, Reading
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.pods import ContainerState, PodObservation, observe_pod
from gpu_training.task_log import TaskLog

SILENCE_S: Final = 300.0
"""A stream that says nothing for so long is opened anew; its position makes that harmless."""
QUIET_S: Final = 5.0
"""Who waits for the ends of logs waits no longer without news. Usually none is waited for: a container ends seconds
before its Job."""
_MAY_COME: Final = (400,)
"""The container is waiting to start, or the node is not known yet."""
_IN_ORDER_S: Final = 2.0
_TAIL_S: Final = 5.0
_TAILS_S: Final = 30.0
"""The same with the wait for the tails of others."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 10.0
_REFUSALS: Final = 4
"""A log that is refused so often in a row, within some seconds, is worth a warning."""
_FAILURES: Final = 8
"""The same of one that breaks or can not be reached, half a minute long."""
_NONE: Final[Mapping[tuple[str, str], Position]] = MappingProxyType({})


class LogFollower:
    """Follows every container of one Job's pods.

    However much its containers say, it hands on one chunk of at most 16 KiB, and then it is the turn of whatever else
    its event loop runs.

    :param sink: takes the news.
    :param log: takes warnings about logs that could not be read.
    :param silence: seconds without a line after which a log is opened anew: a node that is cut off says nothing, too.
    :param positions: pod's and container's name -> where an earlier follower had stopped; others begin at their start.
    :param streams: from which streams are lent; None for those that all trainings of this process share.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        sink: Sink,
        log: TaskLog,
        *,
        silence: float = SILENCE_S,
        positions: Mapping[tuple[str, str], Position] = _NONE,
        streams: LogStreams | None = None,
    ) -> None:
        self._log = log
        self._reader = LogReader(cluster, namespace, sink, log, silence=silence)
        self._starts = dict(positions)
        self._streams = streams
        self._logs: dict[tuple[str, str], ContainerLog] = {}
        self._said_full = False
        self._said_unread = False

    @property
    def positions(self) -> Mapping[tuple[str, str], Position]:
        """How far each log is in the sink: pod's and container's name -> position. What a pod that is gone said is over
        and done; where nothing was read yet, it is where an earlier follower had stopped."""
        read = {(each.pod, each.container): each.reading.position for each in self._logs.values()}
        return self._starts | {key: position for key, position in read.items() if position != START}

    @property
    def is_caught_up(self) -> bool:
        """Whether the sink has what each training container that runs has said so far, as far as that can be told: its
        log is open, or was just now, and what was said before it was opened is told."""
        return all(
            each.is_live
            for each in self._logs.values()
            if each.container == TRAINING_CONTAINER and not each.ended.is_set()
        )

    def update(self, pods: Mapping[str, Mapping[str, Any]], gone_pods: Mapping[str, Mapping[str, Any]]) -> None:
        """Follow what is new in these pods (documents by UID), and learn what has ended.

        :param gone_pods: pods that the API server no longer has, as they were last seen.
        """
        for document in pods.values():
            self._look_at(observe_pod(document))
        for key, each in list(self._logs.items()):
            if key[0] in gone_pods:
                each.ended.set()
                each.gone.set()
                if not each.is_running:
                    del self._logs[key]

    def _look_at(self, pod: PodObservation) -> None:
        before: list[asyncio.Task[None]] = []
        for container in (*pod.init_containers, *pod.containers):
            if container.started_at is None:
                continue
            each = self._logs.get((pod.uid, container.name))
            if each is None:
                reading = Reading(self._starts.pop((pod.name, container.name), START))
                each = self._logs[pod.uid, container.name] = self._reader.log_of(pod.name, container.name, reading)
                each.task = asyncio.get_running_loop().create_task(self._follow(each, tuple(before)))
            elif container.state is ContainerState.RUNNING and each.ended.is_set() and not each.is_running:
                # It was started again: a sidecar, or any container of a pod that restarts its own.
                each.ended.clear()
                each.task = asyncio.get_running_loop().create_task(self._follow(each, tuple(before)))
            if container.state is ContainerState.TERMINATED:
                each.ended.set()
                if each.task is not None and not each.task.done():
                    before.append(each.task)

    async def drain(self, limit: float, *, quiet: float = QUIET_S) -> None:
        """Wait until everything that containers said is in the sink; then stop.

        What is not there in time is a warning, and of each such log the last lines are given.

        :param limit: seconds at most.
        :param quiet: seconds at most without any news, while no log waits for its turn among others that are read.
        """
        begin = monotonic()
        while late := [each for each in self._logs.values() if each.is_running]:
            # Who waits for its turn among the logs of others is not quiet.
            waits = any(each.waits_for_turn for each in late)
            last_news = monotonic() if waits else max([begin, *(each.news_at for each in late)])
            left = min(begin + limit, last_news + quiet) - monotonic()
            if left <= 0:
                break
            await asyncio.wait([each.task for each in late if each.task is not None], timeout=left)
        await self.stop()
        if late:
            took = monotonic() - begin
            self._log.warning("the end of %d container logs was not there within %.3g s", len(late), took)
            await asyncio.gather(*(self._read_tail(each) for each in late))

    async def stop(self) -> None:
        """Stop at once."""
        tasks = [each.task for each in self._logs.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, each: ContainerLog, before: Sequence[asyncio.Task[None]]) -> None:
        try:
            if before:
                # What an init container said comes before what the training says, where both are there at once.
                await asyncio.wait(before, timeout=_IN_ORDER_S)
            await self._follow_to_the_end(each)
        except Exception as error:
            self._log.warning("%s is not followed any more: %s: %s", each.named, type(error).__name__, error)

    async def _follow_to_the_end(self, each: ContainerLog) -> None:
        pause, failures = _FIRST_PAUSE_S, 0
        while True:
            last, change = each.ended.is_set(), each.next_change()
            try:
                any_new = await (self._read_last(each) if last else self._read_live(each))
                failures, self._said_unread = 0, False
                if any_new:
                    pause = _FIRST_PAUSE_S
                if last:
                    return
            except GpuTrainingError as error:
                self._log.debug("%s broke: %s", each.named, error)
                failures += 1
                if each.lasted_s:
                    failures, self._said_unread = 0, False
                if self._is_hopeless(each, error, failures):
                    return
            if each.lasted_s > pause:
                pause = _FIRST_PAUSE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    # One last read follows the container's end: the stream may have been cut just before it.
                    await change.wait()
            pause = min(pause * 2, _LONGEST_PAUSE_S, each.liveness.deaf_s / 2)

    def _is_hopeless(self, each: ContainerLog, error: GpuTrainingError, times: int) -> bool:
        """Whether what is missing of it will never come; said, unless it was read to its end.

        While its pod is there it is tried again: a node or API server that restarts knows no pods and roles at first.
        """
        if not isinstance(error, ClusterRejected) or error.status in _MAY_COME:
            if times == _FAILURES and not self._said_unread:
                self._said_unread = True
                self._log.warning("%s can not be read now, and perhaps others: %s", each.named, error)
            return False
        if each.gone.is_set():
            if error.status != 404 or not each.is_whole:
                self._log.warning("%s can not be read to its end: %s", each.named, error)
            return True
        if times == _REFUSALS:
            # The news that a pod is gone may come later than that, but not by much.
            each.is_whole = False
            self._log.warning("%s can not be read now, and is tried again: %s", each.named, error)
        return False

    async def _read_live(self, each: ContainerLog) -> bool:
        """Read while it goes on; whether there was anything new. Only waits, where no stream is free."""
        streams = self._shared_streams()
        if streams.is_full and not self._said_full:
            self._said_full = True
            self._log.warning(
                "%s waits: %d logs are followed already ([gpu_training] log_streams); it is read when another ends, or "
                "when its container does",
                each.named,
                streams.most,
            )
        async with streams.followed(each.ended) as is_lent:
            return is_lent and await self._reader.read(each, follow=True)

    async def _read_last(self, each: ContainerLog) -> bool:
        each.waits_for_turn = True
        try:
            async with self._shared_streams().last_read():
                each.waits_for_turn, each.news_at = False, monotonic()
                return await self._reader.read(each, follow=False)
        finally:
            each.waits_for_turn = False

    def _shared_streams(self) -> LogStreams:
        if self._streams is None:
            self._streams = streams_of_process(self._log)
        return self._streams

    async def _read_tail(self, each: ContainerLog) -> None:
        """Give the last lines of a log that was not read to its end."""
        try:
            async with asyncio.timeout(_TAILS_S), self._shared_streams().tail(), asyncio.timeout(_TAIL_S):
                await self._reader.read_tail(each)
        except (GpuTrainingError, TimeoutError) as error:
            self._log.warning("the last lines of %s can not be read: %s", each.named, str(error) or "no answer")
