"""What one subscriber of the shared watch sees of its Job, and of what is around it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from gpu_training.cluster.connection import Document
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.reflector import slim
from gpu_training.core.events import JobReference
from gpu_training.core.observation import Observation, observe
from gpu_training.core.surroundings import Surroundings

_TURN_S: Final = 300.0
"""Longer than it takes until it is everybody's turn."""


class Subscription:
    """What one subscriber sees of one Job.

    :param lookout: of the Job's namespace, shared with all other subscribers.
    """

    def __init__(self, job: JobReference, lookout: Lookout) -> None:
        self.job = job
        self.lookout = lookout
        self.trouble: str | None = None
        """Why the API server can not be watched now; None while it can."""
        self.jobs_trouble: str | None = None
        """The same for the Jobs alone: without news of pods a Job's end is seen nevertheless."""
        self.doubt: str | None = None
        """Why it can not be told whether the Job, which the list lacks, is gone."""
        self.document: Document | None = None
        self.pods: dict[str, Document] = {}
        self.gone_pods: dict[str, Document] = {}
        self.gone = False
        self._news = asyncio.Event()

    @property
    def job_trouble(self) -> str | None:
        """Why the Job's end would not be seen now; None when it would."""
        return self.jobs_trouble or self.doubt

    def observe(self) -> Observation:
        """Give what is known now."""
        return observe(self.document, self.pods.values(), gone_pods=self.gone_pods.values(), gone=self.gone)

    def look_around(self, waits: bool) -> None:
        """Say whether the training waits: while it does, it can look around, and is woken by what concerns it there.

        May be said again at any time; who leaves the watch waits no longer.
        """
        if waits:
            self.lookout.begin(self)
        else:
            self.lookout.end(self)

    def around(self) -> Surroundings:
        """Give what is known around the training now, and of Events those about its Job, its pods and its workload,
        and about what is neither."""
        return self.lookout.around({self.job.uid, *self.pods, *self.gone_pods})

    def concerns(self, uids: AbstractSet[str]) -> bool:
        """Whether that of its Job, or of one of its pods, is among some UIDs."""
        return self.job.uid in uids or not uids.isdisjoint(self.pods)

    async def changed(self, timeout: float | None = None) -> None:
        """Return when something is new since the last call, or after `timeout` seconds; where hundreds wait, when it is
        its turn after that."""
        if not await self._hears(timeout) and self.lookout.ask(self):
            await self._hears(_TURN_S)
        self._news.clear()

    async def _hears(self, timeout: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                return await self._news.wait()
        return False

    def notify(self) -> None:
        """Wake the subscriber."""
        self._news.set()

    def refresh(self, pods: Iterable[Document]) -> None:
        """Take the pods of a fresh list for all that there are now."""
        fresh = {pod["metadata"]["uid"]: slim(pod) for pod in pods}
        for uid in self.pods.keys() - fresh.keys():
            self.gone_pods[uid] = self.pods.pop(uid)
        self.pods.update(fresh)
