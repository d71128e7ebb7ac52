"""How many requests it takes to look around: as many for hundreds of trainings as for one, and few a minute."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic

import pytest
from tests.unit.cluster import surrounding_documents as around
from tests.unit.cluster.looking_around import add_kueue, furnished_api, play
from tests.unit.cluster.watched_api import Document, WatchedApi
from tests.unit.patience import DEADLINE_S, until

from gpu_training.cluster.reflector import Pace, Reflector
from gpu_training.cluster.subscription import Subscription
from gpu_training.cluster.watch import SharedWatch
from gpu_training.core.events import JobReference

pytestmark = pytest.mark.unit

FASTER = 30
"""A minute of the watches' lasts two seconds here."""
MINUTES = 4


@pytest.fixture
def api(tmp_path: Path) -> Iterator[WatchedApi]:
    api = furnished_api(tmp_path)
    add_kueue(api)
    yield api
    api.stop()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass faster for whatever is asked for again and again."""
    for name, seconds in (
        ("reflector.WATCH_S", 60),
        ("queue_positions.EVERY_S", 40),
        ("queue_positions.REFILL_S", 30),
        ("sights.PRESENCE_S", 300),
    ):
        monkeypatch.setattr(f"gpu_training.cluster.{name}", seconds / FASTER)


def job(number: int) -> Document:
    labels = {"gpu-training.io/deployment": "d"}
    return {"metadata": {"name": f"job-{number}", "namespace": around.NAMESPACE, "labels": labels}, "spec": {}}


async def look(api: WatchedApi, stack: AsyncExitStack, trainings: int) -> list[Subscription]:
    """Subscribe to so many Jobs that wait, and wait until each has seen everything."""
    subscriptions = []
    for number in range(trainings):
        reference = JobReference(namespace=around.NAMESPACE, name=f"job-{number}", uid=f"uid-job-{number}")
        watch = SharedWatch.subscribe(api.address, job=reference, deployment="d")
        subscription, _ = await stack.enter_async_context(watch)
        subscription.look_around(waits=True)
        subscriptions.append(subscription)
    await until(lambda: all(each.lookout.is_settled for each in subscriptions), "everything was looked at")
    return subscriptions


@pytest.mark.parametrize("trainings", [1, 300])
def test_requests_do_not_grow_with_the_trainings(api: WatchedApi, trainings: int) -> None:
    for number in range(trainings):
        api.put(around.JOBS, job(number))

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            subscriptions = await look(api, stack, trainings)
            await until(lambda: api.count("pendingworkloads") and api.watching == 8, "every watch is open")
            assert all(each.around().nodes for each in subscriptions)
            asked = Counter((each.path, each.is_watch) for each in api.asked)
            assert set(asked.values()) == {1}
            assert len(asked) == 2 * 8 + len(["/apis", "autoscaler", "positions"])

    play(scene())


@pytest.mark.usefixtures("fast")
def test_about_ten_requests_a_minute_are_all_that_it_takes(api: WatchedApi) -> None:
    for number in range(20):
        api.put(around.JOBS, job(number))

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            lookout = (await look(api, stack, 20))[0].lookout
            await until(lambda: api.watching == 8, "every watch is open")

            def waiting() -> int:
                return sum(1 for each in lookout.around().workloads or () if each.waits)

            begun, before = monotonic(), len(api.asked)
            while monotonic() < begun + MINUTES * 60 / FASTER:
                # Somebody joins or leaves a queue all the time.
                admitted = waiting() == 2
                api.put(around.WORKLOADS, around.workload("job-b", job_uid="job-b", admitted=admitted))
                await until(lambda admitted=admitted: waiting() == 2 - admitted, "the change is seen")  # type: ignore[misc]
            assert (len(api.asked) - before) / MINUTES <= 12, Counter(each.path for each in api.asked[before:])
            assert api.count("pendingworkloads") > 2

    play(scene())


def test_a_subscriber_is_woken_by_an_event_about_its_pod_and_sees_it(api: WatchedApi) -> None:
    api.put(around.JOBS, job(0))
    pod = around.pod("pod-a", node="", job_uid="uid-job-0")
    api.put(around.PODS, pod)

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            (subscription,) = await look(api, stack, 1)
            assert set(subscription.pods) == {"uid-pod-a"}
            api.put(around.EVENTS, around.event("one", uid="uid-pod-a"))
            await subscription.changed()
            while not subscription.around().events:
                await subscription.changed()
            subscription.look_around(waits=False)
            subscription.look_around(waits=False)

    play(scene())


def test_who_leaves_looks_no_longer(api: WatchedApi) -> None:
    api.put(around.JOBS, job(0))
    seen: list[Subscription] = []

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            seen.extend(await look(api, stack, 1))
        assert seen[0].around().nodes is None

    play(scene())


def test_a_right_that_lacks_harms_no_watch_of_jobs(api: WatchedApi) -> None:
    api.put(around.JOBS, job(0))
    for path in (around.NODES, around.EVENTS, around.WORKLOADS, around.QUOTAS, around.LIMITS, around.ALL_PODS):
        api.refusals[path] = 403, "forbidden"

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            (subscription,) = await look(api, stack, 1)
            assert subscription.trouble is None
            assert subscription.observe().job is not None
            assert subscription.around().hidden

    play(scene())


def test_a_subscriber_that_waits_is_told_when_its_time_is_up_and_of_its_own_news_before(api: WatchedApi) -> None:
    api.put(around.JOBS, job(0))

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            (subscription,) = await look(api, stack, 1)
            for _ in range(3):
                await subscription.changed(0.05)
            news = asyncio.create_task(subscription.changed(DEADLINE_S * 3))
            api.put(around.JOBS, {**job(0), "spec": {"suspend": True}})
            await until(news.done, "its own news")

    play(scene())


def test_another_list_wakes_only_those_of_which_something_is_new(
    api: WatchedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.cluster.reflector.WATCH_S", 1)
    monkeypatch.setattr(Reflector.__init__, "__kwdefaults__", {"pace": Pace(resync=0.1)})
    api.put(around.JOBS, job(0))

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            reference = JobReference(namespace=around.NAMESPACE, name="job-0", uid="uid-job-0")
            watch = SharedWatch.subscribe(api.address, job=reference, deployment="d")
            subscription, _ = await stack.enter_async_context(watch)
            await subscription.changed(0.05)
            news = asyncio.create_task(subscription.changed())
            await until(lambda: api.count(around.JOBS, watch=False) > 2, "other lists")
            await until(lambda: api.count(around.PODS, watch=False) > 2, "other lists")
            assert not news.done()
            api.put(around.JOBS, {**job(0), "spec": {"suspend": True}})
            await until(news.done, "its own news")

    play(scene())
