"""The logs of one training as one waiter follows them: from where an earlier triggerer has stopped, to their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from gpu_training.core.heard import Beginning, annotation_of, beginning, from_text
from gpu_training.core.log_marks import begun_by
from gpu_training.core.naming import TaskTry
from gpu_training.task_log import MarkedLog
from gpu_training.triggers.earlier_logs import told_earlier
from gpu_training.triggers.job_notes import JobNotes
from gpu_training.triggers.log_limits import limits_of
from gpu_training.triggers.log_teller import LogTeller
from gpu_training.triggers.masked_secrets import mask_secrets_of

if TYPE_CHECKING:
    from gpu_training.cluster.connection import Cluster, Document
    from gpu_training.cluster.logs import LogFollower
    from gpu_training.cluster.subscription import Subscription
    from gpu_training.core.hearing import Hearing

DRAIN_S: Final = 60.0
"""Longest wait for the ends of logs after the training's end, while they bring news."""


@dataclass(slots=True, kw_only=True)
class LogPlace:
    """Into which task log a training's logs are told, and for whom.

    :param waiter: the task try that waits; None where it is not known.
    :param deployment: id of the Airflow deployment.
    :param task_instance: as the triggerer gives it; None on a worker.
    :param conn_ids: Airflow connections whose secrets the pods may know.
    :param log_id: of this very log.
    """

    log: MarkedLog
    waiter: TaskTry | None
    deployment: str
    task_instance: Any = None
    conn_ids: tuple[str, ...] = ()
    log_id: str = field(default_factory=lambda: uuid4().hex[:16])


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLogs:
    """Logs that are followed, as soon as secrets are masked: no pod is listened to before.

    :param notes: written on the Job.
    :param masking: is done when secrets are masked.
    """

    subscription: Subscription
    teller: LogTeller
    follower: LogFollower
    notes: JobNotes
    masking: asyncio.Task[None]

    @property
    def is_caught_up(self) -> bool:
        """Whether what each training container that runs has said so far is heard, as far as that can be told."""
        return self.masking.done() and self.follower.is_caught_up

    def update(self, pods: Mapping[str, Document], gone_pods: Mapping[str, Document]) -> None:
        """Follow what is new in these pods (documents by UID), and learn what has ended.

        :param gone_pods: pods that the API server no longer has, as they were last seen.
        """
        if self.masking.done():
            self.follower.update(pods, gone_pods)

    async def drain(self) -> None:
        """Tell what the pods have said to their ends, and write down that it is told."""
        await asyncio.wait({self.masking})
        self.follower.update(self.subscription.pods, self.subscription.gone_pods)
        updating = asyncio.create_task(self._keep_updated())
        try:
            await self.follower.drain(DRAIN_S)
        finally:
            updating.cancel()
            await asyncio.gather(updating, return_exceptions=True)
            # What came meanwhile is news to whoever waits next.
            self.subscription.notify()
        await self.teller.end()
        await self.notes.write()

    async def _keep_updated(self) -> None:
        """Learn which containers end while others are read to their ends."""
        while True:
            await self.subscription.changed()
            self.follower.update(self.subscription.pods, self.subscription.gone_pods)


@asynccontextmanager
async def followed(
    cluster: Cluster, subscription: Subscription, hearing: Hearing, place: LogPlace, *, silence: float
) -> AsyncIterator[FollowedLogs]:
    """Follow the logs of a Job's pods until the block is left. Whoever is cancelled in it writes down how far it came.

    :param hearing: recalls what an earlier triggerer has heard, and hears what comes.
    :param silence: seconds after which a log that says nothing is opened anew.
    """
    from gpu_training.cluster.logs import LogFollower

    begin = await _beginning(subscription, hearing, place, now=cluster.clock.now())
    job = subscription.job
    place.log.info("following the logs of Job %s/%s", job.namespace, job.name, loc=begun_by(place.log_id))
    if begin.elsewhere:
        place.log.warning(
            "Going on where another triggerer has stopped. Its part of this log is not on this machine: its last lines "
            "may be told again, and what it had not written yet when it was killed is in the pods' logs alone"
        )
    limits = limits_of(place.log)
    teller = LogTeller(place.log, hearing, namespace=job.namespace, told=begin.told, starts=begin.starts, limits=limits)
    follower = LogFollower(cluster, job.namespace, teller.take, place.log, silence=silence, positions=begin.starts)
    notes = JobNotes(
        cluster,
        subscription,
        hearing,
        teller,
        follower,
        waiter=place.waiter,
        deployment=place.deployment,
        log_id=place.log_id,
        log=place.log,
    )
    masking = asyncio.create_task(mask_secrets_of(place.conn_ids, place.log))
    masking.add_done_callback(lambda _: subscription.notify())
    try:
        async with notes.kept():
            yield FollowedLogs(
                subscription=subscription, teller=teller, follower=follower, notes=notes, masking=masking
            )
    finally:
        masking.cancel()
        await follower.stop()


async def _beginning(subscription: Subscription, hearing: Hearing, place: LogPlace, *, now: float) -> Beginning:
    if place.waiter is None:
        return Beginning()
    document = subscription.document or {}
    annotations = document.get("metadata", {}).get("annotations") or {}
    heard = from_text(annotations.get(annotation_of(place.deployment, place.waiter), ""))
    told = await asyncio.to_thread(told_earlier, place.waiter, place.task_instance, place.log)
    if heard is not None:
        hearing.recall(heard.hearing, now=now)
    return beginning(heard, told)
