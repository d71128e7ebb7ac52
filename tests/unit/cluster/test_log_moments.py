"""When a line was said, and whether all is heard: a new listener, and one who was cut off, know what is long past."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from time import monotonic, time

import pytest
from tests.unit.cluster.log_server import LogServer
from tests.unit.core.kubernetes_documents import NAMESPACE, container, pod, running, terminated
from tests.unit.patience import DEADLINE_S, until
from tests.unit.triggers.one_job import Log

from gpu_training.cluster import log_reader
from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.logs import LogFollower
from gpu_training.core.hearing import Hearing
from gpu_training.core.log_lines import Batch, Position, text_of

pytestmark = pytest.mark.unit

PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":10}'
POD = pod("Running", container(running()), name="a", scheduled=1)
ENDED = pod("Failed", container(terminated(1)), name="a", scheduled=1)


class FullLog(Log):
    """A task log that takes no warning."""

    def warning(self, message: str, *args: object, **fields: object) -> None:
        raise OSError(28, "No space left on device")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LogServer]:
    monkeypatch.setattr(log_reader, "CATCH_UP_S", 0.5)
    monkeypatch.setattr(log_reader, "DEAF_S", 1.0)
    server = LogServer(tmp_path)
    yield server
    server.stop()


def follow(
    server: LogServer,
    scene: Callable[[LogFollower, Hearing], Awaitable[None]],
    *,
    silence: float = 300.0,
    log: Log | None = None,
) -> None:
    async def run() -> None:
        async with Cluster(server.address) as cluster:
            hearing = Hearing(())
            follower = LogFollower(cluster, NAMESPACE, hearing.take, log or Log(), silence=silence)
            follower.update({"a": POD}, {})
            try:
                await scene(follower, hearing)
            finally:
                await follower.stop()

    asyncio.run(run())


def test_who_begins_to_listen_knows_how_long_ago_the_last_progress_was(server: LogServer) -> None:
    server.say(PROGRESS % 1, ago=900)
    server.say(PROGRESS % 2, ago=600)
    server.say("something else", ago=30)

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        assert not follower.is_caught_up
        await until(lambda: follower.is_caught_up)
        assert hearing.progress_at == pytest.approx(time() - 600, abs=5)

    follow(server, scene)


def test_a_log_that_still_tells_of_what_is_long_past_is_not_caught_up_with(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        begin, ago = monotonic(), 36000.0
        await until(lambda: server.opened)
        while monotonic() < begin + 1.5:
            server.say("one of many lines", ago=ago)
            ago -= 300
            await asyncio.sleep(0.05)
            assert not follower.is_caught_up
        server.say(PROGRESS % 1, ago=70)
        await until(lambda: follower.is_caught_up)
        assert hearing.progress_at == pytest.approx(time() - 70, abs=5)

    follow(server, scene)


def test_what_comes_live_is_said_now_whatever_the_nodes_clock_says(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: follower.is_caught_up)
        server.say(PROGRESS % 1, ago=3600)
        await until(lambda: hearing.progress_at is not None)
        assert hearing.progress_at == pytest.approx(time(), abs=5)
        assert follower.is_caught_up

    follow(server, scene)


def test_a_node_whose_clock_is_ahead_says_nothing_in_the_future(server: LogServer) -> None:
    server.say(PROGRESS % 1, ago=-3600)

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: hearing.progress_at is not None)
        assert hearing.progress_at == pytest.approx(time(), abs=5)

    follow(server, scene)


def test_a_log_that_can_not_be_read_is_not_heard_until_it_can(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: follower.is_caught_up)
        server.refused = True
        server.cut()
        await until(lambda: not follower.is_caught_up)
        server.refused = False
        await until(lambda: follower.is_caught_up)
        assert server.opened == 2

    follow(server, scene)


def test_a_silent_log_is_opened_anew_so_that_one_that_is_cut_off_is_known(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: follower.is_caught_up)
        server.refused = True
        await until(lambda: not follower.is_caught_up)

    follow(server, scene, silence=1.0)


def test_of_a_training_that_has_ended_nothing_more_is_to_be_heard(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        assert not follower.is_caught_up
        follower.update({"a": ENDED}, {})
        assert follower.is_caught_up

    follow(server, scene)


@pytest.mark.parametrize("ago", [3600.0, -3600.0])
@pytest.mark.parametrize("pause", [0.02, 0.3])
def test_a_node_whose_clock_is_wrong_is_caught_up_with_while_its_pod_prints_on(
    server: LogServer, ago: float, pause: float
) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        deadline = monotonic() + DEADLINE_S
        while not follower.is_caught_up:
            assert monotonic() < deadline
            server.say("heartbeat", ago=ago)
            await asyncio.sleep(pause)

    follow(server, scene)


def test_a_log_that_tells_without_a_pause_what_is_said_now_is_caught_up_with(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        deadline = monotonic() + DEADLINE_S
        while not follower.is_caught_up:
            assert monotonic() < deadline
            server.say("one of many lines")
            await asyncio.sleep(0.02)

    follow(server, scene)


def test_a_log_whose_stream_is_cut_again_and_again_is_caught_up_with_and_stays_so(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: server.opened)

        async def cut_and_open() -> None:
            opened, cut_at = server.opened, monotonic() + 0.4
            server.say("one of many lines")
            await until(lambda: monotonic() >= cut_at)
            server.cut()
            await until(lambda: server.opened > opened)

        deadline = monotonic() + DEADLINE_S
        while not follower.is_caught_up:
            assert monotonic() < deadline
            await cut_and_open()
        for _ in range(3):
            await cut_and_open()
            assert follower.is_caught_up

    follow(server, scene)


def test_a_silent_log_that_is_opened_anew_each_time_it_was_silent_stays_caught_up_with(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: follower.is_caught_up)
        while server.opened < 5:
            assert follower.is_caught_up
            await asyncio.sleep(0.01)

    follow(server, scene, silence=1.0)


@pytest.mark.parametrize("status", [403, 404])
def test_a_log_that_is_refused_for_a_while_is_tried_again_and_said_once(server: LogServer, status: int) -> None:
    log = Log()
    server.say(PROGRESS % 1)

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        await until(lambda: hearing.progress_at is not None)
        first = hearing.progress_at
        server.refusal, server.refused = status, True
        server.cut()
        await until(lambda: log.warnings)
        server.refused = False
        server.say(PROGRESS % 2)
        await until(lambda: hearing.progress_at != first)
        assert len([each for each in log.warnings if "can not be read now, and is tried again" in each]) == 1

    follow(server, scene, log=log)


@pytest.mark.parametrize("status", [403, 404])
def test_the_end_of_a_log_that_is_refused_for_a_while_is_read_while_its_pod_is_there(
    server: LogServer, status: int
) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        server.say(PROGRESS % 1)
        await until(lambda: hearing.progress_at is not None)
        server.refusal, server.refused = status, True
        server.cut()
        follower.update({"a": ENDED}, {})
        refusals = server.refusals
        await until(lambda: server.refusals >= refusals + 3)
        server.say(PROGRESS % 10)
        server.cut()
        server.refused = False
        await follower.drain(DEADLINE_S)
        assert hearing.progress is not None
        assert hearing.progress.step == 10

    follow(server, scene)


@pytest.mark.parametrize("status", [403, 404])
def test_a_log_that_was_read_to_its_end_before_its_pod_was_gone_ends_without_a_word(
    server: LogServer, status: int
) -> None:
    log = Log()

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        server.say(PROGRESS % 10)
        await until(lambda: hearing.progress_at is not None)
        server.refusal, server.refused = status, True
        server.cut()
        follower.update({}, {POD["metadata"]["uid"]: ENDED})
        await follower.drain(DEADLINE_S)
        # Who may not read it does not know whether there is more.
        assert [each for each in log.warnings if "can not be read to its end" in each] == log.warnings
        assert len(log.warnings) == (status != 404)

    follow(server, scene, log=log)


def test_the_end_of_a_log_that_is_refused_to_the_last_is_said(server: LogServer) -> None:
    log = Log()

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        server.say(PROGRESS % 10)
        await until(lambda: hearing.progress_at is not None)
        server.refusal, server.refused = 404, True
        server.cut()
        follower.update({"a": ENDED}, {})
        await follower.drain(DEADLINE_S, quiet=0.5)
        assert "the last lines of the log of pod a, container training can not be read" in log.warnings[-1]

    follow(server, scene, log=log)


def test_a_log_that_can_not_be_reached_for_long_is_said_once(server: LogServer) -> None:
    log = Log()

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        for _ in range(2):
            await until(lambda: follower.is_caught_up)
            server.refused = True
            server.cut()
            said, refusals = len(log.warnings), server.refusals
            await until(lambda refusals=refusals: server.refusals >= refusals + 12)  # type: ignore[misc]
            assert len(log.warnings) == said + 1
            assert "can not be read now, and perhaps others" in log.warnings[-1]
            server.refused = False

    follow(server, scene, log=log)


def test_of_a_pod_that_is_gone_before_its_log_was_read_it_is_said(server: LogServer) -> None:
    log = Log()
    server.refusal, server.refused = 404, True

    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        follower.update({}, {"a": POD})
        follower.update({}, {POD["metadata"]["uid"]: POD})
        await follower.drain(DEADLINE_S)
        assert any("can not be read to its end" in each for each in log.warnings)

    follow(server, scene, log=log)


def test_a_container_that_is_started_again_is_followed_on(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        def has_told(step: int) -> bool:
            return hearing.progress is not None and hearing.progress.step == step

        def runs_again_and_has_told(step: int) -> bool:
            follower.update({"a": POD}, {})
            return has_told(step)

        server.say(PROGRESS % 1)
        await until(lambda: has_told(1))
        follower.update({"a": ENDED}, {})
        server.cut()
        await until(lambda: server.opened == 2)
        server.cut()
        server.say(PROGRESS % 2)
        await until(lambda: runs_again_and_has_told(2))

    follow(server, scene)


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), ValueError("a fault")], ids=repr)
@pytest.mark.parametrize("can_warn", [True, False])
def test_what_a_task_log_does_not_take_is_said_once_and_what_follows_is_told(
    server: LogServer, fault: Exception, can_warn: bool
) -> None:
    log, told = Log() if can_warn else FullLog(), list[str]()
    seen: list[Mapping[tuple[str, str], Position]] = [{}]

    def take(batch: Batch) -> None:
        if "lost" in batch.lines[0]:
            raise fault
        told.extend(text_of(each) for each in batch.lines)

    async def scene() -> None:
        async with Cluster(server.address) as cluster:
            follower = LogFollower(cluster, NAMESPACE, take, log)
            follower.update({"a": POD}, {})
            for text in ("lost 1", "told 1", "lost 2", "lost 3", "told 2"):
                server.say(text)
                await until(lambda: follower.positions != seen[-1])
                seen.append(follower.positions)
            await follower.stop()

    asyncio.run(scene())
    said = f"the log of pod a, container training is not told to its end: {type(fault).__name__}: {fault}"
    assert (told, log.warnings, server.opened) == (["told 1", "told 2"], [said, said] if can_warn else [], 1)


def test_a_log_whose_streams_end_at_once_is_caught_up_with_when_they_bring_nothing_new(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        deadline = monotonic() + DEADLINE_S
        while not follower.is_caught_up:
            assert monotonic() < deadline
            opened = server.opened
            server.say_at("2026-11-30T10:00:00.000000001Z", "the only line")
            server.cut()
            await until(lambda opened=opened: server.opened > opened or follower.is_caught_up)  # type: ignore[misc]
        assert server.opened <= 4

    follow(server, scene)


def test_a_log_whose_streams_end_at_once_is_opened_so_often_that_it_stays_caught_up_with(server: LogServer) -> None:
    async def scene(follower: LogFollower, hearing: Hearing) -> None:
        for _ in range(20):
            server.cut()
        await until(lambda: follower.is_caught_up)
        while server.opened < 8:
            assert follower.is_caught_up
            await asyncio.sleep(0.01)

    follow(server, scene)
