"""What the agent keeps with the API server survives every interruption: lists, watches, statuses, removals, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sandbox.agent.api import ApiError, ApiUnavailableError
from sandbox.agent.environment import Source, SourceKind
from sandbox.agent.events import EventRecorder
from sandbox.agent.objects import ObjectReader, ObjectUnavailableError
from sandbox.agent.reflector import Reflector
from sandbox.agent.status_writer import StatusWriter
from sandbox.agent.volumes import Token

pytestmark = pytest.mark.unit

POD: dict[str, Any] = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {}}
GONE = ApiError(410, "Expired", "too old resource version")
DOWN = ApiUnavailableError("connection refused")
BUSY = ApiError(503, "ServiceUnavailable", "starting")
MISSING = ApiError(404, "NotFound", "not found")


class ScriptedApi:
    """An API server that answers by a script: each answer a document or the error that comes instead."""

    def __init__(self, *answers: Any, watches: tuple[list[Any], ...] = ()) -> None:
        self.answers = list(answers)
        self.watches = list(watches)
        self.asked: list[tuple[str, str, Any]] = []
        self.watched: list[str] = []
        self.over = asyncio.Event()

    async def request(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
        self.asked.append((method, path, body))
        answer = self.answers.pop(0)
        self._note_the_end()
        if isinstance(answer, Exception):
            raise answer
        result: dict[str, Any] = answer
        return result

    def _note_the_end(self) -> None:
        if not self.answers and not self.watches:
            self.over.set()

    async def watch(self, path: str, params: dict[str, str], *, seconds: int) -> AsyncIterator[dict[str, Any]]:
        self.watched.append(params["resourceVersion"])
        steps = self.watches.pop(0) if self.watches else [asyncio.Event()]
        self._note_the_end()
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
            yield step


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(seconds: float, _sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        await _sleep(0)

    monkeypatch.setattr(asyncio, "sleep", at_once)


def item(uid: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": uid, "resourceVersion": version, "creationTimestamp": "t"}}


def listing(version: str, *uids: str) -> dict[str, Any]:
    return {"kind": "PodList", "metadata": {"resourceVersion": version}, "items": [item(uid) for uid in uids]}


def event(kind: str, uid: str, version: str) -> dict[str, Any]:
    return {"type": kind, "object": item(uid, version)}


def reflect(server: ScriptedApi) -> list[tuple[str, bool]]:
    seen: list[tuple[str, bool]] = []

    async def until_script_ends() -> None:
        reflector = Reflector(server, "/p", {}, lambda one, gone: seen.append((one["metadata"]["uid"], gone)))  # type: ignore[arg-type]
        task = asyncio.create_task(reflector.run())
        async with asyncio.timeout(5):
            await server.over.wait()
            await reflector.synced.wait()
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(until_script_ends())
    return seen


def test_list_then_changes_then_the_end_of_objects() -> None:
    server = ScriptedApi(
        listing("5", "a"),
        watches=(
            [event("ADDED", "b", "6"), event("DELETED", "a", "7"), event("BOOKMARK", "x", "9")],
            [asyncio.Event()],
        ),
    )
    assert reflect(server) == [("a", False), ("b", False), ("a", True)]
    assert server.watched == ["5", "9"]


@pytest.mark.parametrize("interruption", [GONE, DOWN, BUSY])
def test_what_was_missed_shows_in_a_new_list(interruption: Exception) -> None:
    server = ScriptedApi(listing("5", "a", "b"), interruption, listing("9", "b", "c"), watches=([interruption],))
    assert reflect(server) == [("a", False), ("b", False), ("a", True), ("b", False), ("c", False)]


def write(server: ScriptedApi, action: Callable[[StatusWriter], Awaitable[None]]) -> StatusWriter:
    async def run() -> StatusWriter:
        writer = StatusWriter(server, POD, lambda: {"phase": "Failed"})  # type: ignore[arg-type]
        task = asyncio.create_task(writer.run())
        async with asyncio.timeout(5):
            await action(writer)
        task.cancel()
        return writer

    return asyncio.run(run())


async def mark_and_flush(writer: StatusWriter) -> None:
    writer.mark()
    await writer.flush()


@pytest.mark.parametrize("trouble", [(), (DOWN,), (BUSY, DOWN, ApiError(429, "TooManyRequests", "slow down"))])
def test_status_is_written_until_it_is_taken(trouble: tuple[Exception, ...]) -> None:
    server = ScriptedApi(*trouble, {})
    writer = write(server, mark_and_flush)
    assert len(server.asked) == len(trouble) + 1
    assert server.asked[-1][2] == {"metadata": {"uid": "u"}, "status": {"phase": "Failed"}}
    assert not writer.pod_gone


@pytest.mark.parametrize("end", [MISSING, ApiError(409, "Conflict", "Precondition failed: UID in precondition: u")])
def test_status_of_a_pod_that_is_gone_is_given_up(end: Exception) -> None:
    assert write(ScriptedApi(end), mark_and_flush).pod_gone


@pytest.mark.parametrize("answers", [({},), (DOWN, BUSY, {}), (MISSING,), (ApiError(409, "Conflict", "uid"),)])
def test_removal_is_asked_for_until_the_pod_is_gone_and_never_of_another_pod(answers: tuple[Any, ...]) -> None:
    server = ScriptedApi(*answers)
    write(server, lambda writer: writer.delete())
    assert server.answers == []
    assert {body["preconditions"]["uid"] for _, _, body in server.asked} == {"u"}


def test_event_is_counted_when_it_comes_again_and_dropped_when_refused() -> None:
    posted = {"metadata": {"name": "e"}, "count": 1}
    server = ScriptedApi(
        DOWN, posted, {"metadata": {"name": "e"}, "count": 2}, MISSING, posted, ApiError(403, "", "no")
    )

    async def run() -> None:
        recorder = EventRecorder(server, "gpu-1")  # type: ignore[arg-type]
        for _ in range(3):
            recorder.post(POD, "Warning", "BackOff", "again")
        recorder.post(POD, "Normal", "Other", "refused")
        task = asyncio.create_task(recorder.run())
        async with asyncio.timeout(5):
            await server.over.wait()
        task.cancel()

    asyncio.run(run())
    assert [method for method, _, _ in server.asked] == ["POST", "POST", "PATCH", "PATCH", "POST", "POST"]
    assert server.asked[2][2]["count"] == 2
    assert server.asked[0][2]["source"] == {"component": "kubelet", "host": "gpu-1"}


NOT_YET = ApiError(403, "Forbidden", "no relationship found between node 'gpu-1' and this object")
SECRET = Source(SourceKind.SECRET, "s")


@pytest.mark.parametrize(
    ("answers", "content"),
    [
        (({"data": {"a": "QQ=="}},), {"a": b"A"}),
        ((NOT_YET, DOWN, BUSY, {"data": {"a": "QQ=="}}), {"a": b"A"}),
        (({},), {}),
        ((MISSING,), None),
    ],
)
def test_object_is_read_although_the_authorizer_is_late(answers: tuple[Any, ...], content: Any) -> None:
    reader = ObjectReader(ScriptedApi(*answers), POD)  # type: ignore[arg-type]
    assert asyncio.run(reader.read([SECRET])) == {SECRET: content}


@pytest.mark.parametrize("answers", [(ApiError(403, "Forbidden", "no rights"),), (DOWN,) * 5])
def test_object_that_can_not_be_read_is_not_taken_for_missing(answers: tuple[Exception, ...]) -> None:
    reader = ObjectReader(ScriptedApi(*answers), POD)  # type: ignore[arg-type]
    with pytest.raises(ObjectUnavailableError, match=str(answers[-1])):
        asyncio.run(reader.read([SECRET]))


def test_token_is_bound_to_the_pod_and_kept() -> None:
    server = ScriptedApi({"status": {"token": "t"}})
    reader = ObjectReader(server, POD)  # type: ignore[arg-type]
    token = Token(audience="mlflow", expiration_seconds=600)
    for _ in range(2):
        assert asyncio.run(reader.tokens([token])) == {token: b"t"}
    ((_, path, body),) = server.asked
    assert path == "/api/v1/namespaces/ns/serviceaccounts/default/token"
    assert body["spec"]["boundObjectRef"]["uid"] == "u"
    assert body["spec"]["audiences"] == ["mlflow"]
