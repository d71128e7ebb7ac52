"""What is around trainings that wait, seen through an API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests.unit.cluster import surrounding_documents as around
from tests.unit.cluster.watched_api import WatchedApi

from gpu_training.cluster.lookout import Lookout
from gpu_training.core.surroundings import Autoscaler

pytestmark = pytest.mark.unit

DEADLINE_S = 20.0


class Looker:
    """A training that waits, and counts how often it was woken."""

    def __init__(self, *uids: str) -> None:
        self.uids = uids
        self.woken = 0

    def concerns(self, uid: str) -> bool:
        return uid in self.uids

    def notify(self) -> None:
        self.woken += 1


@pytest.fixture
def api(tmp_path: Path) -> Iterator[WatchedApi]:
    """Give a server with a node, a pod elsewhere, a quota and a limit range; without Kueue and autoscaler."""
    api = WatchedApi(tmp_path)
    api.serve(around.EVENTS, around.PODS, around.JOBS)
    api.documents["/apis"] = around.groups("batch")
    api.put(around.NODES, around.node("gpu-1"))
    api.put(around.ALL_PODS, around.pod("holder", namespace="elsewhere"))
    api.put(around.QUOTAS, around.quota("gpus"))
    api.put(around.LIMITS, around.limit_range("sizes"))
    yield api
    api.stop()


@pytest.fixture
def kueue(api: WatchedApi) -> WatchedApi:
    """Have Kueue as well, with two workloads of one queue."""
    api.documents["/apis"] = around.groups("batch", "kueue.x-k8s.io", "visibility.kueue.x-k8s.io")
    api.put(around.WORKLOADS, around.workload("job-a", job_uid="job-a"))
    api.put(around.WORKLOADS, around.workload("job-b", job_uid="job-b"))
    api.documents[around.POSITIONS.format("nightly")] = around.positions("job-b", "job-a")
    return api


def play(scene: Coroutine[Any, Any, None]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(DEADLINE_S * 2):
            await scene

    asyncio.run(within_time())


async def until(holds: Callable[[], object], what: str, limit: float = DEADLINE_S) -> None:
    deadline = monotonic() + limit
    while not holds():
        assert monotonic() < deadline, f"in vain for {limit} s: {what}"
        await asyncio.sleep(0.01)


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


def test_everything_around_is_seen(api: WatchedApi) -> None:
    api.put(around.EVENTS, around.event("one", uid="pod-1"))

    async def scene() -> None:
        async with opened(api) as lookout:
            seen = lookout.around()
            assert [node.name for node in seen.nodes or ()] == ["gpu-1"]
            assert [(tenant.namespace, tenant.name) for tenant in seen.tenants or ()] == [("elsewhere", "holder")]
            assert [event.message for event in seen.events or ()] == ["the message of one"]
            assert [quota.name for quota in seen.quotas or ()] == ["gpus"]
            assert [limit.maximum for limit in seen.limits or ()] == [{"cpu": "4"}]
            assert (seen.workloads, seen.autoscaler, seen.hidden) == ((), Autoscaler.NONE, ())

    play(scene())


def test_nothing_is_asked_while_nobody_waits(api: WatchedApi) -> None:
    async def scene() -> None:
        lookout = Lookout(api.address, around.NAMESPACE, {}.get)
        assert lookout.around().nodes is None
        assert lookout.around().hidden
        await lookout.close()

    play(scene())
    assert api.asked == []


def test_an_event_wakes_the_training_it_is_about_at_once_and_no_other(api: WatchedApi) -> None:
    ours, other = Looker("job-a", "pod-a"), Looker("job-b")

    async def scene() -> None:
        async with opened(api, ours, other) as lookout:
            await until(lambda: ours.woken and other.woken, "the first look wakes everybody")
            before = ours.woken, other.woken
            api.put(around.EVENTS, around.event("one", uid="pod-a"))
            await until(lambda: ours.woken > before[0], "the event wakes", 3)
            assert [event.uid for event in lookout.around({"pod-a"}).events or ()] == ["pod-a"]
            api.put(around.EVENTS, around.event("two", kind="Job", uid="job-a", reason="FailedCreate"))
            await until(lambda: ours.woken > before[0] + 1, "the Job's event wakes", 3)
            assert other.woken == before[1]

    play(scene())
