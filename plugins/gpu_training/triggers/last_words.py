"""What the pods of a Job say while they are being deleted: a program that is told to stop says why and how it did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.core.errors import GpuTrainingError
from gpu_training.task_log import TaskLog

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster, Document
    from gpu_training.core.events import JobReference
    from gpu_training.triggers.followed_logs import FollowedLogs

_LOOK_EVERY_S: Final = 0.5
_LISTEN_WITHIN_S: Final = 3.0
_LAST_NEWS_S: Final = 5.0
_QUIET_S: Final = 2.0


@asynccontextmanager
async def last_words(
    cluster: Cluster, job: JobReference, logs: FollowedLogs | None, log: TaskLog
) -> AsyncIterator[LastWords]:
    """Listen to a Job's pods while the block deletes it: they may be gone a moment later.

    Whatever is the matter with the logs, the block runs, and soon: it lets GPUs go.

    :param logs: as they were followed until now; None where they were not: nothing is told then, nor where it is not
        known yet what is to be masked.
    """
    is_masked = logs is not None and logs.masking.done() and not logs.masking.cancelled()
    words = LastWords(cluster, job, logs if is_masked else None, log)
    try:
        try:
            async with asyncio.timeout(_LISTEN_WITHIN_S):
                await words.listen()
        except Exception as error:  # of whatever kind
            log.debug("the pods of Job %s/%s are not listened to yet: %r", job.namespace, job.name, error)
        yield words
    finally:
        await words.close()


class LastWords:
    """Follows the logs of pods that are being deleted, from where they were followed to."""

    def __init__(self, cluster: Cluster, job: JobReference, logs: FollowedLogs | None, log: TaskLog) -> None:
        from gpu_training.cluster.logs import LogFollower

        self._cluster = cluster
        self._job = job
        self._log = log
        self._pods: dict[str, Document] = {}
        self._teller = logs.teller if logs is not None else None
        self._follower = (
            LogFollower(cluster, job.namespace, logs.teller.take, log, positions=logs.follower.positions)
            if logs is not None
            else None
        )

    async def listen(self) -> bool:
        """Follow the pods that there are; whether there is any left, as far as that is known."""
        from gpu_training.cluster.jobs import list_pods

        if self._follower is None:
            return False
        try:
            pods = {pod["metadata"]["uid"]: pod for pod in await list_pods(self._cluster, self._job)}
        except GpuTrainingError as error:
            self._log.debug("the pods of Job %s/%s are not seen: %s", self._job.namespace, self._job.name, error)
            return bool(self._pods)
        gone = {uid: pod for uid, pod in self._pods.items() if uid not in pods}
        self._pods |= pods
        self._follower.update(pods, gone)
        return bool(pods)

    async def tell(self, *, limit: float) -> None:
        """Tell what they say until they are gone; what they say later is not told, and that is said.

        :param limit: seconds at most.
        """
        if self._follower is None or self._teller is None:
            return
        deadline = monotonic() + limit
        while await self.listen():
            if monotonic() >= deadline:
                self._log.warning(
                    "The pods of Job %s/%s are not gone after %g s: what they say from now on is not told",
                    self._job.namespace,
                    self._job.name,
                    limit,
                )
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        await self._follower.drain(_LAST_NEWS_S, quiet=_QUIET_S)
        await self._teller.end()

    async def close(self) -> None:
        """Stop listening."""
        if self._follower is not None:
            await self._follower.stop()
