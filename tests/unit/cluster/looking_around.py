"""A server with what is around trainings, and trainings that look at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.unit.cluster import surrounding_documents as around
from tests.unit.cluster.watched_api import WatchedApi
from tests.unit.patience import DEADLINE_S, until

from gpu_training.cluster.lookout import Lookout


class Looker:
    """A training that waits, and counts how often it was woken."""

    def __init__(self, *uids: str) -> None:
        self.uids = uids
        self.woken = 0

    def concerns(self, uids: AbstractSet[str]) -> bool:
        return not uids.isdisjoint(self.uids)

    def notify(self) -> None:
        self.woken += 1


def furnished_api(folder: Path) -> WatchedApi:
    """Give a server with a node, a pod elsewhere, a quota and a limit range; without Kueue and autoscaler."""
    api = WatchedApi(folder)
    api.serve(around.EVENTS, around.PODS, around.JOBS)
    api.documents["/apis"] = around.groups("batch")
    api.put(around.NODES, around.node("gpu-1"))
    api.put(around.ALL_PODS, around.pod("holder", namespace="elsewhere"))
    api.put(around.QUOTAS, around.quota("gpus"))
    api.put(around.LIMITS, around.limit_range("sizes"))
    return api


def add_kueue(api: WatchedApi) -> None:
    """Have Kueue as well, with two workloads of one queue."""
    api.documents["/apis"] = around.groups("batch", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    api.put(around.WORKLOADS, around.workload("job-a", job_uid="job-a"))
    api.put(around.WORKLOADS, around.workload("job-b", job_uid="job-b"))
    api.documents[around.POSITIONS.format("nightly")] = around.positions("job-b", "job-a")


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(DEADLINE_S * 2):
            await scene

    asyncio.run(within_time())


@asynccontextmanager
async def opened(api: WatchedApi, *lookers: Looker) -> AsyncIterator[Lookout]:
    """Give a lookout that has seen everything once."""
    lookout = Lookout(api.address, around.NAMESPACE, {}.get)
    for looker in lookers or (Looker(),):
        lookout.begin(looker)
    try:
        await until(lambda: lookout.is_settled, "everything was looked at")
        yield lookout
    finally:
        await lookout.close()
