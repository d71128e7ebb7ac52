"""What is around the trainings of a namespace, for all of those that wait: watched while one does, and at no cost
otherwise.

How many requests that takes does not depend on how many trainings wait.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from gpu_training.cluster.collections_around import JobOf
from gpu_training.cluster.connection import Cluster, ClusterAddress
from gpu_training.cluster.sights import Sights
from gpu_training.cluster.waking import Looker, Waking
from gpu_training.core.surroundings import Surroundings

log = logging.getLogger(__name__)

LINGER_S: Final = 120.0
"""The watches stay open for so long after the last training has ceased to wait: another one may begin to, and lists are
what is dear."""
_NOBODY: Final = Surroundings(hidden=("surroundings: nobody looks at them",))


class Lookout:
    """Looks around in one namespace of one API server. Belongs to an event loop.

    A looker is woken by an Event about its Job or pods, by news of its Kueue Workload, and by another position in its
    queue, a moment after it came; by news of nodes and of who is on them, and by what becomes known or unknown, within
    seconds, or later where there are hundreds (:class:`Waking`).

    :param job_of: gives the document of one of our Jobs by its UID, where it is known.
    """

    def __init__(self, address: ClusterAddress, namespace: str, job_of: JobOf) -> None:
        self._address = address
        self._namespace = namespace
        self._job_of = job_of
        self._waking = Waking()
        self._sights: Sights | None = None
        self._task: asyncio.Task[None] | None = None
        self._ended: set[asyncio.Task[None]] = set()
        self._linger: asyncio.TimerHandle | None = None
        self._was_settled = False

    def begin(self, who: Looker) -> None:
        """Look around for a training that waits, until :meth:`end`; again is no harm."""
        if who in self._waking:
            return
        self._waking.add(who)
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._task is None:
            # A connection pool of its own: the watches of Jobs and pods never wait for it.
            cluster = Cluster(self._address)
            self._sights = Sights(
                cluster, self._namespace, job_of=self._job_of, told=self._waking.tell, stirred=self._on_stirred
            )
            # In a context of its own: it outlives the training that happens to come first, and what it logs is not of
            # that one's task.
            self._task = asyncio.get_running_loop().create_task(
                _look(cluster, self._sights), context=contextvars.Context()
            )

    def end(self, who: Looker) -> None:
        """Look around no longer for a training; again, or for one that never began, is no harm."""
        if who not in self._waking:
            return
        self._waking.drop(who)
        if not self._waking:
            self._linger = asyncio.get_running_loop().call_later(LINGER_S, self._stop)

    @contextmanager
    def looking(self, who: Looker) -> Iterator[None]:
        """Look around for a training within the block."""
        self.begin(who)
        try:
            yield
        finally:
            self.end(who)

    def ask(self, who: Looker) -> bool:
        """Have a training that waits woken when it is its turn; False for one that does not wait."""
        return self._waking.ask(who)

    @property
    def is_settled(self) -> bool:
        """Whether all that can be known is known: each collection was listed or refused once."""
        return self._sights is not None and self._sights.is_settled

    def around(self, uids: Collection[str] | None = None) -> Surroundings:
        """Give what is known now, at little cost.

        :param uids: of Jobs and pods: of the Events about Jobs, pods and Workloads only theirs are given; None wants
            all.
        """
        return self._sights.around(uids) if self._sights is not None else _NOBODY

    async def close(self) -> None:
        """End every watch."""
        if self._linger is not None:
            self._linger.cancel()
        self._waking.close()
        self._stop()
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._ended.add(self._task)
            self._task.add_done_callback(self._ended.discard)
        self._task = self._sights = self._linger = None
        self._was_settled = False

    def _on_stirred(self) -> None:
        settled, self._was_settled = self._was_settled, self.is_settled
        # Now everything is known: nobody waits for that any longer.
        self._waking.stir(at_once=self._was_settled and not settled)


async def _look(cluster: Cluster, sights: Sights) -> None:
    async with cluster:
        try:
            await sights.run()
        except Exception:  # of whatever kind: a training goes on, whether or not anything is seen around it
            log.exception("the look around a namespace broke in a way that is not foreseen")
