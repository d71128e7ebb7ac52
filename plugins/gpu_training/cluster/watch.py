"""One list-and-watch of Jobs and one of Pods for all trainings of a namespace in one process.

Level-based: subscribers get the newest state, not events. The end of a watch, however it ends, is never the end of a
Job: it lists and watches again, with growing pauses, for as long as anyone is subscribed. What was last seen of a pod
is kept until its Job's subscriber leaves: an evicted pod's object is gone a second after its end.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from gpu_training.cluster.connection import Cluster, ClusterAddress, Document
from gpu_training.cluster.jobs import JOB_UID_LABEL, jobs_path, pods_path, read_job
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.reflector import Reflector, slim
from gpu_training.cluster.subscription import Subscription
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.events import JobReference
from gpu_training.core.naming import LABEL_DEPLOYMENT, label_value

log = logging.getLogger(__name__)


class SharedWatch:
    """The watch of one namespace, shared by every subscriber in an event loop; closed when the last one leaves."""

    _open: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, SharedWatch]]] = WeakKeyDictionary()

    def __init__(self, address: ClusterAddress, namespace: str, deployment: str) -> None:
        self.cluster = Cluster(address)
        # Followers hold a connection each: with a pool of their own they never keep the watch from reconnecting.
        self.log_cluster = Cluster(address)
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._jobs: dict[str, Document] = {}
        self._lookout = Lookout(address, namespace, self._jobs.get)
        self._pods: dict[str, dict[str, Document]] = {}
        self._missing: set[str] = set()
        self._was_listed = False
        self._look = asyncio.Event()
        self._troubles: dict[str, str] = {}
        selector = f"{LABEL_DEPLOYMENT}={label_value(deployment)}"
        self._job_reflector = Reflector(
            self.cluster,
            jobs_path(namespace),
            {"labelSelector": selector},
            take=slim,
            changed=self._job_changed,
            removed=self._job_removed,
            listed=self._on_listed,
            trouble=partial(self._tell_trouble, "jobs"),
        )
        self._pod_reflector = Reflector(
            self.cluster,
            pods_path(namespace),
            {"labelSelector": f"{selector},{JOB_UID_LABEL}"},
            take=slim,
            changed=self._pod_changed,
            removed=self._pod_removed,
            listed=self._on_listed,
            trouble=partial(self._tell_trouble, "pods"),
        )
        # In a context of their own: these tasks outlive the subscriber that happens to come first, and what they log
        # is not of its task.
        self._tasks = [
            asyncio.get_running_loop().create_task(work, context=contextvars.Context())
            for work in (self._job_reflector.run(), self._pod_reflector.run(), self._confirm_missing())
        ]

    @classmethod
    @asynccontextmanager
    async def subscribe(
        cls, address: ClusterAddress, *, job: JobReference, deployment: str
    ) -> AsyncIterator[tuple[Subscription, Cluster]]:
        """Give the subscription to a Job and a connection to follow its logs with, both until the block is left.

        The first observation is there when this returns, unless the API server can not be reached.
        """
        watches = cls._open.setdefault(asyncio.get_running_loop(), {})
        key = (address, job.namespace, deployment)
        watch = watches.get(key)
        if watch is None:
            watch = watches[key] = cls(address, job.namespace, deployment)
        subscription = Subscription(job, watch._lookout)
        watch._add(subscription)
        try:
            await watch._wait_listed(subscription)
            yield subscription, watch.log_cluster
        finally:
            if watch._drop(subscription):
                watches.pop(key, None)
                await watch._close()

    def _add(self, subscription: Subscription) -> None:
        uid = subscription.job.uid
        self._subscriptions.setdefault(uid, []).append(subscription)
        subscription.trouble = next(iter(self._troubles.values()), None)
        subscription.jobs_trouble = self._troubles.get("jobs")
        subscription.document = self._jobs.get(uid)
        subscription.pods = dict(self._pods.get(uid, {}))
        if self._job_reflector.is_listed and subscription.document is None:
            self._suspect(uid)

    def _drop(self, subscription: Subscription) -> bool:
        uid = subscription.job.uid
        self._lookout.end(subscription)
        rest = self._subscriptions[uid]
        rest.remove(subscription)
        if not rest:
            del self._subscriptions[uid]
            self._missing.discard(uid)
        return not self._subscriptions

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._lookout.close()
        await self.cluster.close()
        await self.log_cluster.close()

    @property
    def _is_listed(self) -> bool:
        return self._job_reflector.is_listed and self._pod_reflector.is_listed

    async def _wait_listed(self, subscription: Subscription) -> None:
        while not self._is_listed and subscription.trouble is None:
            await subscription.changed()

    def _on_listed(self) -> None:
        for uid, subscriptions in self._subscriptions.items():
            if self._job_reflector.is_listed and uid not in self._jobs:
                self._suspect(uid)
            # What another list tells anew, each is told apart.
            for subscription in subscriptions if not self._was_listed else ():
                subscription.notify()
        self._was_listed = self._is_listed

    def _suspect(self, uid: str) -> None:
        self._missing.add(uid)
        self._look.set()

    async def _confirm_missing(self) -> None:
        """Ask for every Job that the list lacks by its name: a list may be behind, and only a read that says 404, or
        gives another UID, means that it is gone."""
        while True:
            await self._look.wait()
            self._look.clear()
            for uid in sorted(self._missing):
                for subscription in self._subscriptions.get(uid, ())[:1]:
                    await self._confirm(subscription.job)
            if self._missing:
                await asyncio.sleep(1)
                self._look.set()

    async def _confirm(self, job: JobReference) -> None:
        try:
            document = await read_job(self.cluster, job.namespace, job.name, tries=1)
        except GpuTrainingError as error:
            log.warning("Job %s/%s is not in the list, and could not be read: %s", job.namespace, job.name, error)
            self._doubt(job.uid, str(error))
            return
        self._missing.discard(job.uid)
        self._doubt(job.uid, None)
        if document is not None and document["metadata"]["uid"] == job.uid:
            if job.uid not in self._jobs:
                self._job_changed(slim(document))
            return
        for subscription in self._subscriptions.get(job.uid, ()):
            subscription.gone = True
            subscription.notify()

    def _doubt(self, uid: str, why: str | None) -> None:
        for subscription in self._subscriptions.get(uid, ()):
            if subscription.doubt != why:
                subscription.doubt = why
                subscription.notify()

    def _job_changed(self, document: Document) -> None:
        uid = document["metadata"]["uid"]
        self._jobs[uid] = document
        self._missing.discard(uid)
        for subscription in self._subscriptions.get(uid, ()):
            subscription.doubt = None
            subscription.document = document
            subscription.notify()

    def _job_removed(self, document: Document) -> None:
        uid = document["metadata"]["uid"]
        self._jobs.pop(uid, None)
        self._pods.pop(uid, None)
        for subscription in self._subscriptions.get(uid, ()):
            # The last event holds the Job's final state, conditions included.
            subscription.document = document
            subscription.notify()
            self._suspect(uid)

    def _pod_changed(self, document: Document) -> None:
        for subscription in self._watchers_of(document):
            subscription.pods[document["metadata"]["uid"]] = document
            subscription.notify()
        job = _job_uid(document)
        if job:
            self._pods.setdefault(job, {})[document["metadata"]["uid"]] = document

    def _pod_removed(self, document: Document) -> None:
        uid = document["metadata"]["uid"]
        self._pods.get(_job_uid(document), {}).pop(uid, None)
        for subscription in self._watchers_of(document):
            subscription.pods.pop(uid, None)
            subscription.gone_pods[uid] = document
            subscription.notify()

    def _watchers_of(self, pod: Document) -> Iterator[Subscription]:
        yield from self._subscriptions.get(_job_uid(pod), ())

    def _tell_trouble(self, kind: str, trouble: Exception | None) -> None:
        if trouble is None:
            self._troubles.pop(kind, None)
        else:
            self._troubles[kind] = str(trouble)
        now = next(iter(self._troubles.values()), None), self._troubles.get("jobs")
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                if (subscription.trouble, subscription.jobs_trouble) != now:
                    subscription.trouble, subscription.jobs_trouble = now
                    subscription.notify()


def _job_uid(pod: Document) -> str:
    return str(pod["metadata"].get("labels", {}).get(JOB_UID_LABEL, ""))
