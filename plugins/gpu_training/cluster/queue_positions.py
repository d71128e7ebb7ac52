"""Who waits where in Kueue's local queues: asked of its visibility API, a queue at a time, for all trainings at once.

https://kueue.sigs.k8s.io/docs/tasks/manage/monitor_pending_workloads/pending_workloads_on_demand/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from time import monotonic
from typing import Final
from urllib.parse import quote

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.hidden import REFUSED_S, why
from gpu_training.cluster.presence import VISIBILITY
from gpu_training.cluster.reflector import is_refusal
from gpu_training.core.documents import child, entries, text, whole
from gpu_training.core.errors import GpuTrainingError

log = logging.getLogger(__name__)

EVERY_S: Final = 40.0
_SETTLE_S: Final = 0.5
"""Kueue tells of a workload a moment before its visibility API does."""
REFILL_S: Final = 30.0
_BURST: Final = 4
_NOT_ALLOWED: Final = "queue positions: the account may not read pendingworkloads of local queues"
_NOT_THERE: Final = "queue positions: Kueue's visibility API is not there"


class QueuePositions:
    """Keeps the positions current while there are workloads that wait.

    :param version: of the visibility API; empty where there is none.
    :param queues: gives the names of the local queues in which something waits now.
    :param moved: called with the names of workloads whose position is another one now.
    :ivar known: workload name -> position in its local queue, from 0. Replaced, never changed.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        version: Callable[[], str],
        queues: Callable[[], Collection[str]],
        moved: Callable[[Collection[str]], None],
    ) -> None:
        self.known: Mapping[str, int] = {}
        self.hidden: str | None = None
        self._cluster = cluster
        self._namespace = namespace
        self._version = version
        self._queues = queues
        self._moved = moved
        self._by_queue: Mapping[str, Mapping[str, int]] = {}
        self._news = asyncio.Event()
        self._allowance = _BURST * 1.0
        self._counted_at = monotonic()

    def look(self) -> None:
        """Ask again soon: something has joined or left a queue."""
        self._news.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY_S):
                    await self._news.wait()
            self._news.clear()
            await asyncio.sleep(_SETTLE_S)
            try:
                await self._ask()
            except GpuTrainingError as error:
                self.hidden = hidden_positions(error)
                if is_refusal(error):
                    await asyncio.sleep(REFUSED_S)
            except Exception:  # of whatever kind: nobody would notice that this loop had ended
                log.exception("the look for queue positions broke in a way that is not foreseen")

    async def _ask(self) -> None:
        version, queues = self._version(), sorted(self._queues())
        self._keep({queue: found for queue, found in self._by_queue.items() if queue in queues})
        for queue in queues if version else ():
            await self._take_turn()
            found = await read_positions(self._cluster, self._namespace, version, queue)
            self._keep({**self._by_queue, queue: found})
        self.hidden = _NOT_THERE if queues and not version else None

    def _keep(self, by_queue: Mapping[str, Mapping[str, int]]) -> None:
        self._by_queue = by_queue
        found = {name: position for positions in by_queue.values() for name, position in positions.items()}
        before = self.known
        moved = {name for name in before.keys() | found.keys() if before.get(name) != found.get(name)}
        if moved:
            self.known = found
            self._moved(moved)

    async def _take_turn(self) -> None:
        """Wait until another request is due: a few at once, and two a minute in the long run, whatever comes and
        goes."""
        while True:
            now = monotonic()
            self._allowance = min(self._allowance + (now - self._counted_at) / REFILL_S, float(_BURST))
            self._counted_at = now
            if self._allowance >= 1:
                self._allowance -= 1
                return
            await asyncio.sleep((1 - self._allowance) * REFILL_S)


async def read_positions(cluster: Cluster, namespace: str, version: str, queue: str) -> dict[str, int]:
    """Give the position, from 0, of each workload that waits in a local queue; nothing when there is no such queue.

    :raises GpuTrainingError: it could not be read.
    """
    path = f"/apis/{VISIBILITY}/{version}/namespaces/{quote(namespace)}/localqueues/{quote(queue)}/pendingworkloads"
    try:
        reply = await cluster.request("GET", path, doing=f"read what waits in queue {namespace}/{queue}", tries=1)
    except GpuTrainingError as error:
        if getattr(error, "status", None) == 404:
            return {}
        raise
    waiting = {
        text(child(item, "metadata"), "name"): whole(item, "positionInLocalQueue")
        for item in entries(reply.document, "items")
    }
    return {name: position for name, position in waiting.items() if name and position is not None}


def hidden_positions(error: GpuTrainingError) -> str:
    """Give in words why they could not be read."""
    return _NOT_ALLOWED if getattr(error, "status", None) == 403 else f"queue positions: {why(error)}"
