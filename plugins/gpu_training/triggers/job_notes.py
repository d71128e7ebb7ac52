"""Writes on the Job how far its training is, for whoever looks there, and how far this waiter has told its logs, for
whoever waits on in its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from gpu_training.cluster.connection import MERGE_PATCH, Cluster
from gpu_training.cluster.jobs import jobs_path
from gpu_training.core import progress_document
from gpu_training.core.errors import ClusterRejected
from gpu_training.core.heard import Heard, annotation_of, outdated, to_text
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_lines import Position
from gpu_training.core.log_marks import LogKey, earlier
from gpu_training.core.naming import ANNOTATION_PROGRESS, ANNOTATION_WAITERS, TaskTry
from gpu_training.core.waiters import waiters_of
from gpu_training.task_log import TaskLog
from gpu_training.triggers.log_teller import LogTeller
from gpu_training.triggers.persistence import see_through

if TYPE_CHECKING:
    from gpu_training.cluster.logs import LogFollower
    from gpu_training.cluster.subscription import Subscription

_FIRST_S: Final = 2.0
_EVERY_S: Final = 15.0
_SELDOM_S: Final = 60.0
_PART: Final = 60
"""The longer it waits, the more seldom it writes: after each sixtieth of the time, once a minute in the end."""
_LAST_WITHIN_S: Final = 5.0


class JobNotes:
    """What one waiter writes on its Job: both annotations in one request. What can not be written is a warning.

    :param waiter: the task try that waits; None where it is not known: then only progress is written.
    :param log_id: of the task log that `teller` tells into.
    """

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        hearing: Hearing,
        teller: LogTeller,
        follower: LogFollower,
        *,
        waiter: TaskTry | None,
        deployment: str,
        log_id: str,
        log: TaskLog,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._hearing = hearing
        self._teller = teller
        self._follower = follower
        self._waiter = waiter
        self._deployment = deployment
        self._log_id = log_id
        self._log = log
        self._written: Mapping[str, str | None] = {}
        self._warned = False

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Write every now and then while the block runs, and once more when it is cancelled.

        What was kept back is told then, since whoever goes on begins after it.
        """
        writing = asyncio.create_task(self._keep())
        try:
            yield
        except asyncio.CancelledError as cancelled:
            await _ended(writing)
            # One with a message is a person's doing, or another triggerer has taken over and writes itself by now
            # (triggerer_job_runner.py, `cancel_triggers`); without one, this triggerer ends, and another goes on.
            if not cancelled.args:
                await see_through(self._close(), limit=_LAST_WITHIN_S)
            raise
        finally:
            await _ended(writing)

    async def write(self) -> None:
        """Write now what is new."""
        try:
            await self._write(self._notes())
        except Exception as error:  # of whatever kind: what is written here is worth no training
            is_gone = isinstance(error, ClusterRejected) and await self._is_gone(error)
            (self._log.debug if is_gone or self._warned else self._log.warning)(
                "How far the training is and its logs are told is not written on its Job; another triggerer may tell "
                "lines again: %s: %s",
                type(error).__name__,
                error,
            )
            self._warned = self._warned or not is_gone

    async def _keep(self) -> None:
        began = monotonic()
        await asyncio.sleep(_FIRST_S)
        while True:
            # It fails only where the task log itself takes nothing.
            with suppress(Exception):
                await self.write()
            await asyncio.sleep(min(_SELDOM_S, max(_EVERY_S, (monotonic() - began) / _PART)))

    async def _close(self) -> None:
        await self._follower.stop()
        # Of whatever kind: this waiter ends anyway, and is written down as far as it came.
        with suppress(Exception):
            await self._teller.end()
        with suppress(Exception):
            async with asyncio.timeout(_LAST_WITHIN_S):
                await self.write()

    def _notes(self) -> dict[str, str | None]:
        annotations = self._annotations()
        notes: dict[str, str | None] = {}
        told = self._hearing.told
        if told is not None:
            there = progress_document.from_text(annotations.get(ANNOTATION_PROGRESS, ""))
            if there is None or there.at < told.at:  # whoever else waits on the Job hears the same
                notes[ANNOTATION_PROGRESS] = progress_document.to_text(told)
        if self._waiter is not None:
            waiters = waiters_of(annotations.get(ANNOTATION_WAITERS, "")) or ()
            notes[annotation_of(self._deployment, self._waiter)] = to_text(self._heard(), waiters=len(waiters))
            if waiters:
                notes |= dict.fromkeys(outdated(annotations, self._deployment, (*waiters, self._waiter)))
        return notes

    def _heard(self) -> Heard:
        # An earlier task log may hold more than was heard here by now.
        read: Mapping[LogKey, Position] = self._follower.positions
        positions = {key: earlier(at, self._teller.position(key)) for key, at in read.items()}
        return Heard(
            log=self._log_id,
            positions={key: at for key, at in positions.items() if at.moment is not None},
            hearing=self._hearing.to_document(),
        )

    def _annotations(self) -> Mapping[str, str]:
        document = self._subscription.document or {}
        return document.get("metadata", {}).get("annotations") or {}

    async def _write(self, notes: Mapping[str, str | None]) -> None:
        if not notes or notes == self._written or self._subscription.gone:
            return
        job = self._subscription.job
        await self._cluster.request(
            "PATCH",
            jobs_path(job.namespace, job.name),
            doing=f"write on Job {job.namespace}/{job.name} how far its logs are told",
            body={"metadata": {"uid": job.uid, "annotations": notes}},
            content_type=MERGE_PATCH,
            tries=1,
        )
        self._written = notes

    async def _is_gone(self, error: ClusterRejected) -> bool:
        """Whether the Job is gone, or another by now: that is nobody's trouble."""
        if error.status != 422:
            return error.status in (404, 409)
        # It is the answer to another UID, and to annotations that are too long together.
        job = self._subscription.job
        try:
            there = await self._cluster.request(
                "GET", jobs_path(job.namespace, job.name), doing=f"read Job {job.namespace}/{job.name}", tries=1
            )
            return bool(there.document["metadata"]["uid"] != job.uid)
        except Exception as refusal:  # of whatever kind: then it is not known
            return isinstance(refusal, ClusterRejected) and refusal.status == 404


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
