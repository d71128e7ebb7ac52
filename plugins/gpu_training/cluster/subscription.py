"""What one subscriber of the shared watch sees of its Job."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from gpu_training.cluster.connection import Document
from gpu_training.cluster.reflector import slim
from gpu_training.core.events import JobReference
from gpu_training.core.observation import Observation, observe


class Subscription:
    """What one subscriber sees of one Job."""

    def __init__(self, job: JobReference) -> None:
        self.job = job
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

    async def changed(self, timeout: float | None = None) -> None:
        """Return when something is new since the last call, or after `timeout` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()
        self._news.clear()

    def notify(self) -> None:
        """Wake the subscriber."""
        self._news.set()

    def refresh(self, pods: Iterable[Document]) -> None:
        """Take the pods of a fresh list for all that there are now."""
        fresh = {pod["metadata"]["uid"]: slim(pod) for pod in pods}
        for uid in self.pods.keys() - fresh.keys():
            self.gone_pods[uid] = self.pods.pop(uid)
        self.pods.update(fresh)
