"""A mirror of a collection, against an API server that does what a real one does once in months."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.api_server import ScriptedApi

from gpu_training.cluster.connection import Cluster, ClusterAddress
from gpu_training.cluster.reflector import Reflector, slim

pytestmark = pytest.mark.unit

PATH = "/apis/batch/v1/namespaces/n/jobs"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    api = ScriptedApi(tmp_path)
    connection = {"conn_type": "kubernetes", "extra": {"kube_config_path": str(api.kubeconfig)}}
    monkeypatch.setenv("AIRFLOW_CONN_SCRIPTED", json.dumps(connection))
    yield api
    api.stop()


def item(uid: str, version: int, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"uid": uid, "name": uid, "resourceVersion": str(version), "managedFields": [{}]},
        "spec": {"template": {"spec": {"containers": [{"env": [{"name": "SECRET", "value": "hunter2"}]}]}}},
        "status": status,
    }


def page(version: int, *items: dict[str, Any], following: str = "") -> dict[str, Any]:
    return {"metadata": {"resourceVersion": str(version), "continue": following}, "items": list(items)}


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": body}


class Mirror:
    """What a reflector told."""

    def __init__(self, take: Callable[[dict[str, Any]], dict[str, Any]] = slim) -> None:
        self.take = take
        self.told: list[tuple[str, str, str]] = []
        self.documents: dict[str, dict[str, Any]] = {}
        self.troubles: list[Exception | None] = []

    def follow(self, until: Callable[[], bool]) -> None:
        """Run a reflector until something holds."""

        def changed(document: dict[str, Any]) -> None:
            self.documents[document["metadata"]["uid"]] = document
            self.told.append(("changed", document["metadata"]["uid"], document["metadata"]["resourceVersion"]))

        def removed(document: dict[str, Any]) -> None:
            self.told.append(("removed", document["metadata"]["uid"], document["metadata"]["resourceVersion"]))

        async def run() -> None:
            async with Cluster(ClusterAddress(conn_id="scripted")) as cluster:
                reflector = Reflector(
                    cluster,
                    PATH,
                    {"labelSelector": "a=b"},
                    take=self.take,
                    changed=changed,
                    removed=removed,
                    listed=lambda: self.told.append(("listed", "", "")),
                    trouble=self.troubles.append,
                )
                task = asyncio.create_task(reflector.run())
                async with asyncio.timeout(20):
                    while not until():  # noqa: ASYNC110 - what it tells is looked at, as well as what was asked
                        await asyncio.sleep(0.01)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(run())


def test_a_list_then_events(api: ScriptedApi) -> None:
    api.lists = [page(5, item("a", 1), item("b", 2))]
    api.watches = [[event("ADDED", item("c", 6)), event("MODIFIED", item("a", 7)), event("DELETED", item("b", 8))]]
    mirror = Mirror()
    mirror.follow(lambda: len(mirror.told) == 6)

    assert mirror.told == [
        ("changed", "a", "1"),
        ("changed", "b", "2"),
        ("listed", "", ""),
        ("changed", "c", "6"),
        ("changed", "a", "7"),
        ("removed", "b", "8"),
    ]
    assert api.queries[0]["labelSelector"] == "a=b"
    assert api.queries[1]["resourceVersion"] == "5"
    assert api.queries[1]["allowWatchBookmarks"] == "true"


def test_nothing_secret_is_kept(api: ScriptedApi) -> None:
    api.lists = [page(5, item("a", 1))]
    mirror = Mirror()
    mirror.follow(lambda: bool(mirror.documents))

    assert "hunter2" not in json.dumps(mirror.documents)
    assert "managedFields" not in mirror.documents["a"]["metadata"]


def test_the_run_that_a_result_has_to_name_is_kept_of_the_environment(api: ScriptedApi) -> None:
    job, run = item("a", 1), {"name": "MLFLOW_RUN_ID", "value": "0123456789abcdef"}
    job["spec"]["template"]["spec"]["containers"][0]["env"].append(run)
    api.lists = [page(5, job)]
    mirror = Mirror()
    mirror.follow(lambda: bool(mirror.documents))

    assert mirror.documents["a"]["spec"]["template"]["spec"]["containers"] == [{"env": [run]}]


def test_what_decides_where_a_pod_may_run_is_kept_of_a_template(api: ScriptedApi) -> None:
    job = item("a", 1)
    container = job["spec"]["template"]["spec"]["containers"][0]
    container |= {"name": "training", "resources": {"limits": {"nvidia.com/gpu": "2"}}, "args": ["--secret"]}
    job["spec"]["template"]["spec"] |= {"nodeSelector": {"pool": "a"}, "volumes": [{"name": "data"}]}
    api.lists = [page(5, job)]
    mirror = Mirror()
    mirror.follow(lambda: bool(mirror.documents))

    kept = {"name": "training", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    template = {"spec": {"containers": [kept], "nodeSelector": {"pool": "a"}}}
    assert mirror.documents["a"]["spec"]["template"] == template


def test_a_state_of_which_nothing_else_is_kept_is_no_news(api: ScriptedApi) -> None:
    api.lists = [page(5, item("a", 1))]
    api.watches = [[event("MODIFIED", item("a", 6, phase="x")), event("ADDED", item("b", 7))]]
    mirror = Mirror(take=lambda document: {"metadata": {**document["metadata"], "resourceVersion": "-"}})
    mirror.follow(lambda: ("changed", "b", "-") in mirror.told)

    assert mirror.told == [("changed", "a", "-"), ("listed", "", ""), ("changed", "b", "-")]


def test_a_long_list_comes_page_by_page(api: ScriptedApi) -> None:
    api.lists = [page(5, item("a", 1), following="more"), page(5, item("b", 2))]
    mirror = Mirror()
    mirror.follow(lambda: ("listed", "", "") in mirror.told)

    assert [told[1] for told in mirror.told] == ["a", "b", ""]
    assert api.queries[1]["continue"] == "more"


def test_the_next_watch_goes_on_from_the_last_bookmark(api: ScriptedApi) -> None:
    api.lists = [page(5)]
    api.watches = [[event("BOOKMARK", {"metadata": {"resourceVersion": "99"}})]]
    Mirror().follow(lambda: len(api.queries) == 3)

    assert api.queries[2]["resourceVersion"] == "99"
    assert api.asked(lambda query: "watch" not in query) == 1


@pytest.mark.case("C057")
def test_an_expired_version_is_listed_again_and_what_is_gone_is_told(api: ScriptedApi) -> None:
    api.lists = [page(5, item("a", 1), item("b", 2)), page(9, item("b", 2), item("c", 8))]
    api.watches = [[event("ERROR", {"code": 410, "message": "too old resource version"})]]
    mirror = Mirror()
    mirror.follow(lambda: mirror.told.count(("listed", "", "")) == 2)

    assert mirror.told[3:] == [("changed", "c", "8"), ("removed", "a", "1"), ("listed", "", "")]


@pytest.mark.case("C057")
def test_a_list_that_expires_in_the_middle_begins_anew(api: ScriptedApi) -> None:
    expired = {"kind": "Status", "code": 410, "message": "the provided continue parameter is too old"}
    api.lists = [page(5, item("a", 1), following="more"), expired, page(6, item("a", 1), item("b", 2))]
    mirror = Mirror()
    mirror.follow(lambda: ("listed", "", "") in mirror.told)

    assert [told[1] for told in mirror.told if told[0] == "changed"] == ["a", "b"]


@pytest.mark.parametrize("line", [b"not json\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"type": "ERROR", "object": {}}\n'])
def test_an_event_that_can_not_be_read_is_no_end(api: ScriptedApi, line: bytes) -> None:
    api.lists = [page(5)]
    api.watches = [[line], [event("ADDED", item("a", 6))]]
    mirror = Mirror()
    mirror.follow(lambda: ("changed", "a", "6") in mirror.told)

    assert any(mirror.troubles)
    assert mirror.troubles[-1] is None


def test_a_large_object_in_many_chunks_is_one_event(api: ScriptedApi) -> None:
    large = item("a", 6, message="x" * 3_000_000)
    content = json.dumps(event("ADDED", large)).encode() + b"\n"
    api.lists = [page(5)]
    api.watches = [[content[at : at + 70_000] for at in range(0, len(content), 70_000)]]
    mirror = Mirror()
    mirror.follow(lambda: ("changed", "a", "6") in mirror.told)


@pytest.mark.case("C052")
def test_refused_credentials_are_read_again(api: ScriptedApi) -> None:
    refused = {"kind": "Status", "code": 401, "message": "Unauthorized"}
    api.lists = [refused, page(5)]
    mirror = Mirror()
    api.write_kubeconfig(token="second")
    mirror.follow(lambda: ("listed", "", "") in mirror.told)

    assert api.credentials[:2] == ["Bearer second", "Bearer second"]
    assert not any(mirror.troubles)
