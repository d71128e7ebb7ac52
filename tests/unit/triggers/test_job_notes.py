"""What a waiter writes on its Job: progress for all, how far its logs are told for who goes on in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import NAMESPACE, container, job, pod, running
from tests.unit.core.log_stamps import stamped
from tests.unit.patience import until
from tests.unit.triggers.one_job import JOB, REFERENCE, Log

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.logs import LogFollower
from gpu_training.cluster.lookout import Lookout
from gpu_training.cluster.subscription import Subscription
from gpu_training.core import progress_document
from gpu_training.core.heard import annotation_of, from_text
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_lines import Batch, Position, Reading
from gpu_training.core.naming import ANNOTATION_PROGRESS, ANNOTATION_WAITERS, TaskTry
from gpu_training.core.waiters import to_text
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers import job_notes as job_notes_module
from gpu_training.triggers.job_notes import JobNotes
from gpu_training.triggers.log_teller import LogTeller

pytestmark = pytest.mark.unit

POD = pod("Running", container(running()), name="a", scheduled=1)
KEY = ("a", "training")
FIRST = TaskTry(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=1)
SECOND = TaskTry(dag_id="d", run_id="r", task_id="train", map_index=-1, try_number=2)
OWN = annotation_of("airflow", SECOND)
PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":10}'


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    api.put(JOB, job(metadata={"annotations": {ANNOTATION_WAITERS: to_text([SECOND])}}))
    yield api
    api.stop()


def at(n: int) -> Position:
    reading = Reading()
    reading.new_lines([stamped(n, "said")])
    return reading.position


class Unreadable(dict[str, Any]):
    """A document that raises whoever looks into it.

    :param seen: is set when it was looked into often enough.
    """

    def __init__(self, seen: asyncio.Event, *, times: int) -> None:
        super().__init__(metadata={})
        self._seen = seen
        self._left = times

    def get(self, *_: object) -> Any:
        self._left -= 1
        if self._left <= 0:
            self._seen.set()
        raise RecursionError("no end of it")


class Scene:
    """One waiter on the Job, and what it has heard."""

    def __init__(self, api: ObjectApi, cluster: Cluster, read: int = 9) -> None:
        self.api = api
        self.log = Log()
        self.hearing = Hearing(built_in_rules())
        self.subscription = Subscription(REFERENCE, Lookout(api.address, NAMESPACE, {}.get))
        self.subscription.document = api.objects[JOB]
        self.teller = LogTeller(self.log, self.hearing)
        # Nothing listens there: what is heard is said here, and was read by then.
        self.follower = LogFollower(cluster, NAMESPACE, self.teller.take, self.log, positions={KEY: at(read)})
        self.notes = JobNotes(
            cluster,
            self.subscription,
            self.hearing,
            self.teller,
            self.follower,
            waiter=SECOND,
            deployment="airflow",
            log_id="0123abcd",
            log=self.log,
        )

    def say(self, *lines: str) -> None:
        self.teller.take(Batch(pod="a", container="training", lines=lines, live=True, now=5.0))

    @property
    def annotations(self) -> dict[str, Any]:
        return dict(self.api.objects[JOB]["metadata"]["annotations"])


def play(api: ObjectApi, act: Any) -> None:
    async def run() -> None:
        async with Cluster(api.address) as cluster:
            await act(Scene(api, cluster))

    asyncio.run(run())


def test_of_what_an_earlier_task_log_holds_only_what_was_heard_here_is_written(api: ObjectApi) -> None:
    async def run() -> None:
        async with Cluster(api.address) as cluster:
            scene = Scene(api, cluster, read=3)
            scene.say(stamped(5, PROGRESS % 4))
            await scene.notes.write()
            heard = from_text(scene.annotations[OWN])
            assert heard is not None
            assert heard.positions == {KEY: at(3)}

    asyncio.run(run())


def test_progress_and_positions_are_written_in_one_request_and_once(api: ObjectApi) -> None:
    async def act(scene: Scene) -> None:
        scene.say(stamped(1, "hello"), stamped(2, PROGRESS % 4))
        await scene.notes.write()
        await scene.notes.write()

        assert api.count("PATCH") == 1
        progress = progress_document.from_text(scene.annotations[ANNOTATION_PROGRESS])
        assert progress is not None
        assert (progress.pod, progress.progress.step) == ("a", 4)
        heard = from_text(scene.annotations[OWN])
        assert heard is not None
        assert (heard.log, heard.positions) == ("0123abcd", {KEY: at(2)})
        again = Hearing(built_in_rules())
        again.recall(heard.hearing)
        assert again.progress == scene.hearing.progress

    play(api, act)


def test_progress_that_another_waiter_has_written_is_not_written_again(api: ObjectApi) -> None:
    async def act(scene: Scene) -> None:
        scene.say(stamped(1, PROGRESS % 4))
        assert scene.hearing.told is not None
        theirs = progress_document.to_text(scene.hearing.told).replace("{", '{"by":"another",', 1)
        written = scene.annotations | {ANNOTATION_PROGRESS: theirs}
        scene.subscription.document = api.put(JOB, job(metadata={"annotations": written}))
        await scene.notes.write()
        assert scene.annotations[ANNOTATION_PROGRESS] == theirs
        assert OWN in scene.annotations

    play(api, act)


def test_what_a_waiter_left_that_waits_no_more_is_taken_away(api: ObjectApi) -> None:
    async def act(scene: Scene) -> None:
        left = {**scene.annotations, annotation_of("airflow", FIRST): "x", "other": "y"}
        scene.subscription.document = api.put(JOB, job(metadata={"annotations": left}))
        await scene.notes.write()
        assert annotation_of("airflow", FIRST) not in scene.annotations
        assert scene.annotations["other"] == "y"

    play(api, act)


@pytest.mark.parametrize(("status", "warnings"), [(403, 1), (500, 1), (404, 0), (409, 0)])
def test_what_can_not_be_written_is_said_once_and_ends_nothing(api: ObjectApi, status: int, warnings: int) -> None:
    async def act(scene: Scene) -> None:
        api.refusals["PATCH", JOB] = (status, "no")
        for n in range(1, 4):
            scene.say(stamped(n, "hello"))
            await scene.notes.write()
        assert len(scene.log.warnings) == warnings

    play(api, act)


@pytest.mark.parametrize(
    ("there", "warnings"),
    [({}, 1), ({"uid": "of another Job"}, 0), (None, 0)],
    ids=["the same Job", "another Job", "no Job"],
)
def test_a_document_that_is_refused_is_said_unless_the_job_is_another_by_now(
    api: ObjectApi, there: dict[str, str] | None, warnings: int
) -> None:
    async def act(scene: Scene) -> None:
        api.refusals["PATCH", JOB] = (422, "metadata.annotations: Too long: may not be more than 262144 bytes")
        if there is None:
            del api.objects[JOB]
        else:
            api.put(JOB, job(metadata=there))
        for n in range(1, 4):
            scene.say(stamped(n, "hello"))
            await scene.notes.write()
        assert len(scene.log.warnings) == warnings
        assert all("Too long" in each for each in scene.log.warnings)

    play(api, act)


def test_the_writing_goes_on_whatever_it_meets_and_says_so_once(
    api: ObjectApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_S", "_EVERY_S", "_SELDOM_S"):
        monkeypatch.setattr(job_notes_module, name, 0.01)

    async def act(scene: Scene) -> None:
        written = api.objects[JOB]
        scene.subscription.document = Unreadable(looked := asyncio.Event(), times=3)
        async with scene.notes.kept(), asyncio.timeout(20):
            scene.say(stamped(1, "hello"))
            await asyncio.wait_for(looked.wait(), 20)
            scene.subscription.document = written
            await until(lambda: OWN in scene.annotations)
        assert len(scene.log.warnings) == 1

    play(api, act)


def test_a_task_log_that_can_not_be_written_keeps_nobody_from_writing_on_the_job(
    api: ObjectApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_FIRST_S", "_EVERY_S", "_SELDOM_S"):
        monkeypatch.setattr(job_notes_module, name, 0.01)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    async def act(scene: Scene) -> None:
        scene.hearing.take(Batch(pod="a", container="training", lines=[stamped(1, PROGRESS % 4)], live=True, now=5.0))
        monkeypatch.setattr(scene.log, "warning", full)
        api.refusals["PATCH", JOB] = (500, "no")
        async with scene.notes.kept(), asyncio.timeout(20):
            await until(lambda: api.count("PATCH") >= 2)
            api.refusals.clear()
            await until(lambda: ANNOTATION_PROGRESS in scene.annotations)

    play(api, act)


async def cancelled_after(scene: Scene, begun: asyncio.Event, message: str | None) -> None:
    async def wait() -> None:
        async with scene.notes.kept():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    await begun.wait()
    scene.say(stamped(1, "hello"))
    task.cancel(*([] if message is None else [message]))
    await asyncio.wait({task})
    assert task.cancelled()


def test_what_was_told_is_written_at_the_end_though_what_is_kept_back_can_not_be_told(
    api: ObjectApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    async def act(scene: Scene) -> None:
        begun = asyncio.Event()

        async def wait() -> None:
            async with scene.notes.kept():
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await begun.wait()
        scene.say(stamped(1, PROGRESS % 4))
        scene.say(stamped(2, PROGRESS % 5))
        monkeypatch.setattr(scene.log, "info", full)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert json.loads(scene.annotations[OWN])["positions"] == {"a/training": stamped(2, "").strip()}

    play(api, act)


@pytest.mark.parametrize(("message", "writes"), [(None, 1), ("__airflow_user_action__", 0)])
def test_whoever_ends_with_its_triggerer_writes_once_more_and_whoever_was_taken_over_from_does_not(
    api: ObjectApi, message: str | None, writes: int
) -> None:
    async def act(scene: Scene) -> None:
        await cancelled_after(scene, asyncio.Event(), message)
        assert api.count("PATCH") == writes
        if writes:
            assert json.loads(scene.annotations[OWN])["positions"] == {"a/training": stamped(1, "").strip()}

    play(api, act)


def test_it_is_written_every_now_and_then(api: ObjectApi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_S", "_EVERY_S", "_SELDOM_S"):
        monkeypatch.setattr(job_notes_module, name, 0.01)

    async def act(scene: Scene) -> None:
        async with scene.notes.kept(), asyncio.timeout(20):
            for n in range(1, 4):
                scene.say(stamped(n, "hello"))
                while api.count("PATCH") < n:
                    assert scene.log.warnings == []
                    await asyncio.sleep(0.01)

    play(api, act)
