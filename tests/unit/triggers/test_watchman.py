"""Why a training waits stands on its Job: once a cause, no longer than it waits. What may not be written is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic as real_monotonic
from typing import Any

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import (
    NAMESPACE,
    Document,
    at,
    complete,
    container,
    job,
    pod,
    running,
    waiting,
)
from tests.unit.triggers.one_job import JOB, REFERENCE, Log

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.subscription import Subscription
from gpu_training.core.naming import ANNOTATION_PENDING
from gpu_training.core.observation import Observation, observe
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pending_document import from_document
from gpu_training.core.phase import Phase, Wait
from gpu_training.triggers import watchman as watchman_module
from gpu_training.triggers.watchman import Watchman

pytestmark = pytest.mark.unit

STARTING, RUNNING = Wait(phase=Phase.STARTING, detail=""), Wait(phase=Phase.RUNNING, detail="")
LOOKED_S = 10.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    api.put(JOB, job())
    # Nothing around the training may be looked at.
    api.refusals["GET", "/pods"] = (403, "no")
    yield api
    api.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watchman_module, "monotonic", clock)
    return clock


def stuck(reason: str = "InvalidImageName", message: str = 'couldn\'t parse image name "A:b:c"') -> Document:
    return pod("Pending", container(waiting(reason, message)), name="a", scheduled=1)


def lacks(secret: str) -> Document:
    return stuck("CreateContainerConfigError", f'secret "{secret}" not found')


def runs() -> Document:
    return pod("Running", container(running()), name="a", scheduled=1)


class Post:
    """A watchman at his post.

    :ivar late: whether the watch shows the Job as it was at first.
    """

    def __init__(self, api: ObjectApi, watchman: Watchman, subscription: Subscription, log: Log, clock: Clock) -> None:
        self.api = api
        self.watchman = watchman
        self.subscription = subscription
        self.log = log
        self.clock = clock
        self.again: float | None = None
        self._first = api.objects[JOB]
        self.late = False

    def seen(self, its_pod: Document, **more: Any) -> Observation:
        self.subscription.pods = {its_pod["metadata"]["uid"]: its_pod}
        return observe(self._first if self.late else self.api.objects[JOB], [its_pod], **more)

    async def look(self, its_pod: Document, wait: Wait = STARTING, *, after: float = 0.0, **more: Any) -> None:
        """Look, and write, some seconds after the last time."""
        self.clock.now += after
        observation = self.seen(its_pod, **more)
        self.again = self.watchman.look(observation, wait, self.clock.now)
        await self.watchman.write(observation)

    @property
    def written(self) -> int:
        return self.api.count("PATCH")

    def cause(self) -> Cause | None:
        """Give the cause that stands on the Job."""
        text = self.api.objects[JOB]["metadata"]["annotations"].get(ANNOTATION_PENDING)
        report = from_document(json.loads(text)) if text is not None else None
        return report.cause if report is not None else None


@asynccontextmanager
async def at_post(api: ObjectApi, clock: Clock) -> AsyncIterator[Post]:
    lookout = Lookout(api.address, NAMESPACE, {}.get)
    subscription, log = Subscription(REFERENCE, lookout), Log()
    async with Cluster(api.address) as cluster:
        try:
            yield Post(api, Watchman(subscription, cluster, log), subscription, log, clock)
        finally:
            await lookout.close()


async def has_looked_around(post: Post) -> None:
    """Return when all that can be known around the training is known."""
    deadline = real_monotonic() + LOOKED_S
    post.subscription.look_around(True)
    while not post.subscription.lookout.is_settled:
        assert real_monotonic() < deadline
        await asyncio.sleep(0.01)


def play(api: ObjectApi, clock: Clock, scene: Callable[[Post], Awaitable[None]], *, settled: bool = True) -> None:
    async def run() -> None:
        async with at_post(api, clock) as post:
            if settled:
                await has_looked_around(post)
            await scene(post)

    asyncio.run(run())


# What is written.


def test_a_cause_is_written_once_and_the_next_one_again(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        for _ in range(5):
            await post.look(stuck(), after=1.0)
            assert post.again == 1.0
        assert (post.cause(), post.written) == (Cause.IMAGE_NAME_INVALID, 1)
        for _ in range(5):
            await post.look(lacks("keys"), after=1.0)
        assert (post.cause(), post.written) == (Cause.SECRET_MISSING, 2)
        assert post.log.warnings == []

    play(api, clock, scene)


def test_what_the_watch_does_not_show_yet_is_not_written_at_every_breath(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        post.late = True
        for _ in range(30):
            await post.look(stuck(), after=0.1)
        assert 1 <= post.written <= 4

    play(api, clock, scene)


def test_other_words_for_the_same_cause_are_written_once_a_minute(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        await post.look(lacks("one"))
        await post.look(lacks("two"), after=59.0)
        assert post.written == 1
        await post.look(lacks("two"), after=1.0)
        assert post.written == 2
        assert "two" in api.objects[JOB]["metadata"]["annotations"][ANNOTATION_PENDING]

    play(api, clock, scene)


def test_it_is_taken_off_when_the_training_runs(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        await post.look(stuck())
        # At once is too soon after the last write; it is not forgotten.
        await post.look(runs(), RUNNING)
        assert post.again == 1.0
        await post.look(runs(), RUNNING, after=1.0)
        assert ANNOTATION_PENDING not in api.objects[JOB]["metadata"]["annotations"]
        for _ in range(3):
            await post.look(runs(), RUNNING, after=100.0)
        assert post.again is None
        assert post.written == 2

    play(api, clock, scene)


def test_a_new_watcher_takes_off_what_another_wrote_and_writes_nothing_twice(api: ObjectApi, clock: Clock) -> None:
    async def waits(post: Post) -> None:
        await post.look(stuck())

    async def goes_on(post: Post) -> None:
        await post.look(stuck())
        assert post.written == 1
        await post.look(runs(), RUNNING)
        assert post.cause() is None
        assert post.written == 2

    play(api, clock, waits)
    play(api, clock, goes_on)


@pytest.mark.parametrize("text", ["", "mine", "null", "[]", '{"v": 99}', "[" * 5000])
def test_what_somebody_else_wrote_there_is_replaced(api: ObjectApi, clock: Clock, text: str) -> None:
    api.put(JOB, job(metadata={"annotations": {ANNOTATION_PENDING: text}}))

    async def scene(post: Post) -> None:
        await post.look(stuck())
        assert post.cause() is Cause.IMAGE_NAME_INVALID

    play(api, clock, scene)


@pytest.mark.parametrize(
    ("document", "more"),
    [
        (complete(), {}),
        (job(metadata={"deletionTimestamp": at(5)}), {}),
        (job(), {"gone": True}),
    ],
    ids=["ended", "being deleted", "gone"],
)
def test_nothing_is_written_on_a_job_that_is_over(
    api: ObjectApi, clock: Clock, document: Document, more: dict[str, Any]
) -> None:
    api.put(JOB, document)

    async def scene(post: Post) -> None:
        await post.look(stuck(), **more)
        assert post.written == 0

    play(api, clock, scene)


# What is found.


def test_since_when_a_cause_holds_is_kept_until_it_is_another_one_or_none(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        await post.look(stuck())
        first = clock.now
        await post.look(stuck(message="couldn't parse image name: other words"), after=9.0)
        assert post.watchman.held_since == first
        await post.look(lacks("keys"), after=1.0)
        assert post.watchman.held_since == first + 10.0
        await post.look(runs(), RUNNING, after=1.0)
        assert (post.watchman.report, post.watchman.held_since) == (None, None)
        await post.look(lacks("keys"), after=1.0)
        await post.look(lacks("keys"), after=1.0)
        assert post.watchman.held_since == first + 12.0

    play(api, clock, scene)


def test_while_not_all_is_known_nothing_is_told_for_two_seconds_and_then_what_is_known(
    api: ObjectApi, clock: Clock
) -> None:
    async def scene(post: Post) -> None:
        # Nothing has been listed yet: the loop had no turn for it.
        observation = post.seen(stuck())
        for seconds in (0.0, 1.0, 1.9):
            post.watchman.look(observation, STARTING, 1000.0 + seconds)
            assert post.watchman.report is None
            clock.now = 1000.0 + seconds
        clock.now = 1002.0
        post.watchman.look(observation, STARTING, 1002.0)
        assert post.watchman.report is not None
        assert post.watchman.held_since == 1002.0

    play(api, clock, scene, settled=False)


def test_a_training_that_runs_asks_for_nothing(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        await post.look(runs(), RUNNING)
        await asyncio.sleep(0)
        assert post.again is None
        assert post.watchman.report is None
        assert api.asked == []

    play(api, clock, scene, settled=False)


# What can not be written.


def test_a_refusal_is_one_warning_and_it_is_not_tried_again_every_second(api: ObjectApi, clock: Clock) -> None:
    api.refusals["PATCH", "/jobs/"] = (403, 'cannot patch resource "jobs"')

    async def scene(post: Post) -> None:
        for _ in range(180):
            await post.look(stuck(), after=1.0)
        assert post.written == 3
        assert len(post.log.warnings) == 1
        assert "Why the training waits is not written on its Job" in post.log.warnings[0]
        assert "cannot patch" in post.log.warnings[0]
        assert post.watchman.report is not None
        api.refusals.clear()
        await post.look(stuck(), after=60.0)
        assert post.cause() is Cause.IMAGE_NAME_INVALID

    play(api, clock, scene)


def test_an_api_server_that_is_away_is_one_warning_and_it_is_tried_again_soon(api: ObjectApi, clock: Clock) -> None:
    api.refusals["PATCH", "/jobs/"] = (503, "away")

    async def scene(post: Post) -> None:
        await post.look(stuck())
        await post.look(stuck(), after=4.0)
        assert post.written == 1
        api.refusals.clear()
        await post.look(stuck(), after=1.0)
        assert post.cause() is Cause.IMAGE_NAME_INVALID
        assert len(post.log.warnings) == 1

    play(api, clock, scene)


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_job_that_went_meanwhile_is_no_warning(api: ObjectApi, clock: Clock, status: int) -> None:
    api.refusals["PATCH", "/jobs/"] = (status, "it is another one")

    async def scene(post: Post) -> None:
        await post.look(stuck())
        assert post.written == 1
        assert post.log.warnings == []

    play(api, clock, scene)


def test_another_job_of_the_name_is_never_written_on(api: ObjectApi, clock: Clock) -> None:
    async def scene(post: Post) -> None:
        post.late = True
        api.put(JOB, job(metadata={"uid": "another"}))
        await post.look(stuck())
        assert post.written == 1
        assert post.cause() is None

    play(api, clock, scene)
