"""Following many logs at once: a fair share, so many streams and no more, read to the end, and trouble is a warning."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.log_scripts import Script, ScriptedLogs, Write
from tests.unit.core.kubernetes_documents import NAMESPACE, container, pod, running, terminated
from tests.unit.patience import DEADLINE_S, until
from tests.unit.triggers.one_job import Log

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.log_client import BUFFER_BYTES
from gpu_training.cluster.log_reader import TAIL_LINES
from gpu_training.cluster.log_streams import DEFAULT_STREAMS, LogStreams, streams_of_process
from gpu_training.cluster.logs import LogFollower
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.log_lines import Batch, Position, text_of

pytestmark = pytest.mark.unit

BEGIN = 1_796_065_200
Scene = Callable[[Cluster], Awaitable[None]]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedLogs]:
    server = ScriptedLogs(tmp_path)
    yield server
    server.stop()


def play(server: ScriptedLogs, scene: Scene) -> None:
    async def run() -> None:
        async with Cluster(server.address) as cluster:
            await scene(cluster)

    asyncio.run(run())


def alive(*names: str) -> dict[str, Any]:
    return {name: pod("Running", container(running()), name=name, scheduled=1) for name in names}


def ended(*names: str) -> dict[str, Any]:
    return {name: pod("Failed", container(terminated(1)), name=name, scheduled=1) for name in names}


def line(number: int) -> bytes:
    return f"2026-11-30T19:{number // 60 % 60:02d}:{number % 60:02d}.000000001Z line {number}\n".encode()


def lines(count: int) -> Script:
    """The log of a container that said so many lines, as the API gives it."""

    def write(query: Mapping[str, str], write: Write) -> None:
        said = [line(n) for n in range(count)]
        if "sinceTime" in query:
            said = [each for each in said if each[:19] >= query["sinceTime"][:19].encode()]
        if "tailLines" in query:
            said = said[-int(query["tailLines"]) :]
        write(b"".join(said))

    return write


class Ear:
    """A sink that remembers each pod's lines."""

    def __init__(self) -> None:
        self.heard: dict[str, list[str]] = {}
        self.frames: list[str] = []
        self.batches = 0

    def __call__(self, batch: Batch) -> None:
        self.batches += 1
        self.heard.setdefault(batch.pod, []).extend(text_of(each) for each in batch.lines)
        if batch.frame is not None:
            self.frames.append(batch.frame)


@pytest.mark.case("C064")
def test_a_flood_of_one_training_does_not_keep_the_line_of_another(server: ScriptedLogs) -> None:
    ready, say = threading.Event(), list[Write]()

    def flood(_: Mapping[str, str], write: Write) -> None:
        while not server.over.is_set():
            write(line(1) * 2000)

    def wait(_: Mapping[str, str], write: Write) -> None:
        say.append(write)
        ready.set()
        server.over.wait()

    floods = [f"flood-{n}" for n in range(8)]
    server.scripts = {"quiet": wait, **dict.fromkeys(floods, flood)}

    async def scene(cluster: Cluster) -> None:
        loud, silent, said_at = Ear(), Ear(), list[int]()

        def hear(batch: Batch) -> None:
            loud(batch)
            if loud.batches >= 50 and not said_at:
                # Said in the middle of the flood: the bytes are there before the loop goes on.
                say[0](line(7))
                said_at.append(loud.batches)

        def hear_quiet(batch: Batch) -> None:
            silent(batch)
            said_at.append(loud.batches)

        first = LogFollower(cluster, NAMESPACE, hear, Log())
        second = LogFollower(cluster, NAMESPACE, hear_quiet, Log())
        second.update(alive("quiet"), {})
        await until(ready.is_set)
        first.update(alive(*floods), {})
        await until(lambda: len(said_at) == 2)
        await asyncio.gather(first.stop(), second.stop())
        assert silent.heard == {"quiet": ["line 7"]}
        assert said_at[1] - said_at[0] <= 8, "chunks of the flood came before the line"

    play(server, scene)


def test_a_pod_beyond_the_streams_waits_its_turn_and_is_not_taken_for_heard(server: ScriptedLogs) -> None:
    over = threading.Event()
    server.scripts = {"a": lambda *_: over.wait(), "b": lines(3)}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log, streams=LogStreams(1))
        follower.update(alive("a"), {})
        await until(lambda: server.queries("a"))
        follower.update(alive("a", "b"), {})
        await until(lambda: log.warnings)
        assert "log of pod b" in log.warnings[0]
        assert "[gpu_training] log_streams" in log.warnings[0]
        assert (server.queries("b"), follower.is_caught_up) == ([], False)
        follower.update(ended("a"), {})
        over.set()
        await until(lambda: ear.heard.get("b") == ["line 0", "line 1", "line 2"])
        assert server.queries("b")[0]["follow"] == "true"
        await follower.stop()

    play(server, scene)


def test_a_pod_that_ends_before_a_stream_is_free_is_read_at_its_end(server: ScriptedLogs) -> None:
    server.scripts = {"a": lambda *_: server.over.wait(), "b": lines(3)}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log, streams=LogStreams(1))
        follower.update(alive("a"), {})
        await until(lambda: server.queries("a"))
        follower.update(alive("a", "b"), {})
        await until(lambda: log.warnings)
        follower.update(alive("a") | ended("b"), {})
        await until(lambda: ear.heard)
        assert ear.heard == {"b": ["line 0", "line 1", "line 2"]}
        assert [query["follow"] for query in server.queries("b")] == ["false"]
        await follower.stop()

    play(server, scene)


def test_a_wait_for_a_stream_that_is_given_up_takes_none() -> None:
    async def scene() -> None:
        streams, never = LogStreams(1), asyncio.Event()
        async with streams.followed(never) as is_lent:
            assert is_lent
            waiting = asyncio.create_task(streams.followed(never).__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        assert not streams.is_full
        async with streams.followed(never) as is_lent:
            assert is_lent

    asyncio.run(scene())


@pytest.mark.parametrize(("option", "most"), [(None, DEFAULT_STREAMS), ("3", 3), (" 12 ", 12)])
def test_how_many_streams_there_are_is_an_option(
    monkeypatch: pytest.MonkeyPatch, option: str | None, most: int
) -> None:
    if option is not None:
        monkeypatch.setenv("AIRFLOW__GPU_TRAINING__LOG_STREAMS", option)
    log = Log()

    async def run() -> None:
        assert streams_of_process(log).most == most
        assert streams_of_process(log) is streams_of_process(log)

    asyncio.run(run())
    assert log.warnings == []


@pytest.mark.parametrize("option", ["0", "-1", "many", "1.5", "²"])
def test_an_option_that_is_no_number_of_streams_is_a_warning(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setenv("AIRFLOW__GPU_TRAINING__LOG_STREAMS", option)
    log = Log()

    async def run() -> None:
        assert streams_of_process(log).most == DEFAULT_STREAMS

    asyncio.run(run())
    assert log.warnings == [
        f"[gpu_training] log_streams is {option!r}; a whole number from 1 up is allowed; 256 is used"
    ]


def test_hundreds_of_open_logs_leave_connections_for_requests_and_buffer_little(server: ScriptedLogs) -> None:
    names = [f"p{n}" for n in range(120)]
    server.scripts = dict.fromkeys(names, lambda *_: server.over.wait())

    async def scene(cluster: Cluster) -> None:
        follower = LogFollower(cluster, NAMESPACE, Ear(), Log())
        follower.update(alive(*names), {})
        await until(lambda: len(server.asked) == len(names))
        assert (await cluster.request("GET", "/api", doing="ask", timeout=DEADLINE_S)).document == {}
        async with cluster.stream(
            f"/api/v1/namespaces/{NAMESPACE}/pods/p0/log", doing="look", query={}, idle=DEADLINE_S, is_log=True
        ) as body:
            assert body.get_read_buffer_limits() == (BUFFER_BYTES, 2 * BUFFER_BYTES)
        await follower.stop()

    play(server, scene)


@pytest.mark.case("C059")
def test_a_log_is_read_to_its_end_as_long_as_it_brings_news(server: ScriptedLogs) -> None:
    def slowly(query: Mapping[str, str], write: Write) -> None:
        if query["follow"] == "true":
            for n in range(10):
                server.over.wait(0.15)
                write(line(n))
        else:
            lines(10)(query, write)

    server.scripts = {"a": slowly}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        follower.update(alive("a"), {})
        await until(lambda: server.asked)
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S, quiet=1.0)
        assert ear.heard == {"a": [f"line {n}" for n in range(10)]}
        assert log.warnings == []

    play(server, scene)


@pytest.mark.case("C059")
@pytest.mark.parametrize(
    ("read", "said", "given_from", "has_gap"),
    [(3, 3, 3, False), (3, 100, 3, False), (3, 1000, 800, True), (0, 100, 0, False), (0, 1000, 800, True)],
)
def test_of_a_log_whose_end_is_not_there_in_time_the_last_lines_are_given(
    server: ScriptedLogs, read: int, said: int, given_from: int, has_gap: bool
) -> None:
    def hang(query: Mapping[str, str], write: Write) -> None:
        if "tailLines" in query:
            lines(said)(query, write)
        else:
            lines(read)({}, write)
            server.over.wait()

    server.scripts = {"a": hang}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        follower.update(alive("a"), {})
        await until(lambda: len(ear.heard.get("a", ())) == read and server.asked)
        await follower.drain(DEADLINE_S, quiet=0.2)
        assert ear.heard.get("a", []) == [f"line {n}" for n in (*range(read), *range(given_from, said))]
        assert log.warnings[0].startswith("the end of 1 container logs was not there within ")
        assert log.warnings[1:] == [
            "a part of the log of pod a, container training is left out; its last 200 lines follow"
        ] * int(has_gap)
        assert server.queries("a")[-1]["tailLines"] == str(TAIL_LINES + 1)

    play(server, scene)


def test_a_log_that_never_stops_does_not_hold_the_end_up_for_ever(server: ScriptedLogs) -> None:
    def endless(query: Mapping[str, str], write: Write) -> None:
        number = 0
        while "tailLines" not in query and not server.over.is_set():
            write(line(number))
            number += 1

    server.scripts = {"a": endless}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        follower.update(alive("a"), {})
        await until(lambda: ear.heard)
        await follower.drain(0.5, quiet=DEADLINE_S)
        assert len(log.warnings) == 1

    play(server, scene)


def test_an_answer_that_tells_that_there_is_no_log_is_no_line_but_one_warning(server: ScriptedLogs) -> None:
    server.scripts = {"a": lambda _, write: write(b"unable to retrieve container logs for containerd://0123")}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        follower.update(alive("a"), {})
        await until(lambda: len(server.asked) >= 2)
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S)
        assert ear.heard == {}
        assert log.warnings == [
            "the log of pod a, container training is gone: unable to retrieve container logs for containerd://0123"
        ]

    play(server, scene)


@pytest.mark.case("C064")
def test_a_new_follower_goes_on_where_an_earlier_one_had_stopped(server: ScriptedLogs) -> None:
    server.scripts = {"a": lines(5)}

    async def scene(cluster: Cluster) -> None:
        ear, log, key = Ear(), Log(), ("a", "training")
        positions = {
            key: Position(moment=(BEGIN + 2, 1), count=1),
            ("later", "training"): Position(moment=(1, 0), count=1),
        }
        follower = LogFollower(cluster, NAMESPACE, ear, log, positions=positions)
        assert follower.positions == positions
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S)
        assert server.queries("a")[0]["sinceTime"] == "2026-11-30T19:00:02Z"
        assert ear.heard == {"a": ["line 3", "line 4"]}
        assert follower.positions == positions | {key: Position(moment=(BEGIN + 4, 1), count=1)}
        gone = ended("a")["a"]
        follower.update({}, {gone["metadata"]["uid"]: gone})
        assert key not in follower.positions
        assert log.warnings == []

    play(server, scene)


def test_a_log_that_lost_the_line_where_reading_had_stopped_says_so(server: ScriptedLogs) -> None:
    server.scripts = {"a": lines(5)}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        positions = {("a", "training"): Position(moment=(BEGIN + 2, 0), count=1)}
        follower = LogFollower(cluster, NAMESPACE, ear, log, positions=positions)
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S)
        assert ear.heard == {"a": ["line 2", "line 3", "line 4"]}
        assert log.warnings == [
            "the log of pod a, container training begins anew since it was read: lines between may be missing"
        ]

    play(server, scene)


@pytest.mark.case("C067")
def test_a_bar_is_seen_while_it_is_drawn_and_not_again_when_its_stream_is_opened_anew(server: ScriptedLogs) -> None:
    bar = line(1).rstrip() + b"".join(b"\r%d%%" % n for n in range(50))

    def draw(query: Mapping[str, str], write: Write) -> None:
        write(bar + b"\n" if query["follow"] == "false" else bar)

    server.scripts = {"a": draw}

    async def scene(cluster: Cluster) -> None:
        ear = Ear()
        follower = LogFollower(cluster, NAMESPACE, ear, Log())
        follower.update(alive("a"), {})
        await until(lambda: len(server.asked) >= 3)
        assert ear.frames[-1] == "48%"
        assert len(set(ear.frames)) == len(ear.frames)
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S)
        assert ear.heard["a"][-1] == "49%"

    play(server, scene)


@pytest.mark.case("C071")
def test_what_an_init_container_said_comes_before_the_training(server: ScriptedLogs) -> None:
    def tell(query: Mapping[str, str], write: Write) -> None:
        if query["container"] == "download":
            server.over.wait(0.3)  # later than the other's, if that were asked for at once
        write(line(1 if query["container"] == "download" else 2))

    server.scripts = {"a": tell}
    init = container(terminated(0), name="download")
    both = {"a": pod("Failed", container(terminated(1)), name="a", scheduled=1, init=[init])}

    async def scene(cluster: Cluster) -> None:
        ear = Ear()
        follower = LogFollower(cluster, NAMESPACE, ear, Log())
        follower.update(both, {})
        await follower.drain(DEADLINE_S)
        assert ear.heard == {"a": ["line 1", "line 2"]}

    play(server, scene)


def test_a_sink_that_fails_is_a_warning(server: ScriptedLogs) -> None:
    server.scripts = {"a": lines(1)}

    def fail(batch: Batch) -> None:
        raise ValueError(f"no room for {text_of(batch.lines[0])}")

    async def scene(cluster: Cluster) -> None:
        log = Log()
        follower = LogFollower(cluster, NAMESPACE, fail, log)
        follower.update(alive("a"), {})
        await until(lambda: log.warnings)
        assert log.warnings == [
            "the log of pod a, container training is not told to its end: ValueError: no room for line 0"
        ]
        await follower.stop()

    play(server, scene)


def test_who_waits_for_others_to_be_read_to_their_ends_is_not_quiet(server: ScriptedLogs) -> None:
    server.scripts = {"a": lines(3)}

    async def scene(cluster: Cluster) -> None:
        # The first request imports a client, which takes seconds.
        with suppress(GpuTrainingError):
            await cluster.request("GET", "/version", doing="look", tries=1)
        ear, log, streams = Ear(), Log(), LogStreams(1, last_reads=1)
        follower = LogFollower(cluster, NAMESPACE, ear, log, streams=streams)
        async with streams.last_read():
            follower.update(ended("a"), {})
            # Long enough for the log to be opened on a busy machine, once it is its turn.
            draining = asyncio.create_task(follower.drain(DEADLINE_S, quiet=1.5))
            await asyncio.wait({draining}, timeout=2.5)
            assert not draining.done()
        await draining
        assert (ear.heard, log.warnings) == ({"a": ["line 0", "line 1", "line 2"]}, [])

    play(server, scene)


def test_last_lines_are_given_though_all_that_are_read_to_their_ends_take_long(server: ScriptedLogs) -> None:
    server.scripts = {"a": lines(3)}

    async def scene(cluster: Cluster) -> None:
        ear, streams = Ear(), LogStreams(1, last_reads=1)
        follower = LogFollower(cluster, NAMESPACE, ear, Log(), streams=streams)
        async with streams.last_read():
            follower.update(ended("a"), {})
            await follower.drain(0.3)
        assert ear.heard == {"a": ["line 0", "line 1", "line 2"]}

    play(server, scene)


@pytest.mark.parametrize("is_followed", [True, False])
def test_what_the_node_says_without_a_stamp_is_a_warning_and_no_line(server: ScriptedLogs, is_followed: bool) -> None:
    word = b"failed to create fsnotify watcher: too many open files"
    server.scripts = {"a": lambda _, write: write(line(0) + word)}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        if is_followed:
            follower.update(alive("a"), {})
            await until(lambda: len(server.asked) >= 2)
        follower.update(ended("a"), {})
        await follower.drain(DEADLINE_S)
        assert ear.heard == {"a": ["line 0"]}
        assert log.warnings == [f"the node says of the log of pod a, container training: {word.decode()}"]

    play(server, scene)


def test_a_stamp_that_is_cut_is_no_word_of_the_node(server: ScriptedLogs) -> None:
    server.scripts = {"a": lambda _, write: write(line(0) + line(1)[:15])}

    async def scene(cluster: Cluster) -> None:
        ear, log = Ear(), Log()
        follower = LogFollower(cluster, NAMESPACE, ear, log)
        follower.update(alive("a"), {})
        await until(lambda: len(server.asked) >= 2)
        await follower.stop()
        assert (ear.heard, log.warnings) == ({"a": ["line 0"]}, [])

    play(server, scene)
