"""What is around trainings, looked at once by lists alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cluster import surrounding_documents as around
from tests.unit.cluster.looking_around import add_kueue, furnished_api, opened, play
from tests.unit.cluster.watched_api import Document, WatchedApi
from tests.unit.patience import until

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.single_look import look_once
from gpu_training.core.surroundings import Surroundings

pytestmark = pytest.mark.unit


@pytest.fixture
def api(tmp_path: Path) -> Iterator[WatchedApi]:
    api = furnished_api(tmp_path)
    yield api
    api.stop()


def look(api: WatchedApi, *jobs: Document) -> Surroundings:
    async def once() -> Surroundings:
        async with Cluster(api.address) as cluster:
            return await look_once(cluster, around.NAMESPACE, jobs)

    return asyncio.run(once())


def test_one_look_sees_what_a_lookout_sees(api: WatchedApi) -> None:
    add_kueue(api)
    api.put(around.EVENTS, around.event("one", uid="pod-1"))
    once = look(api)
    seen: list[Surroundings] = []

    async def scene() -> None:
        async with opened(api) as lookout:
            await until(
                lambda: all(each.position is not None for each in lookout.around().workloads or ()), "the places"
            )
            seen.append(lookout.around())

    assert api.count(watch=True) == 0
    play(scene())
    assert once == seen[0]
    assert once.workloads is not None
    assert [each.position for each in once.workloads] == [1, 0]


def test_what_may_not_be_read_is_said_and_the_rest_is_seen(api: WatchedApi) -> None:
    add_kueue(api)
    api.put(around.PODS, around.pod("ours"))
    for path in (around.NODES, around.ALL_PODS, around.POSITIONS.format("nightly")):
        api.refusals[path] = 403, "forbidden"
    seen = look(api)

    assert seen.nodes is None
    assert [tenant.name for tenant in seen.tenants or ()] == ["ours"]
    assert not seen.tenants_everywhere
    assert [quota.name for quota in seen.quotas or ()] == ["gpus"]
    assert sorted(seen.hidden) == [
        "nodes: the account may not list them",
        "pods of other namespaces: the account may not list them",
        "queue positions: the account may not read pendingworkloads of local queues",
    ]


def test_where_nothing_may_be_read_nothing_is_known(api: WatchedApi) -> None:
    api.refusals[""] = 403, "forbidden"

    assert replace(look(api), hidden=()) == Surroundings()


def test_the_deadline_of_a_job_bounds_how_long_its_pod_holds_gpus(api: WatchedApi) -> None:
    job = {
        "metadata": {"uid": "job-a"},
        "status": {"startTime": "2026-12-01T10:00:00Z"},
        "spec": {"activeDeadlineSeconds": 60},
    }
    api.put(around.ALL_PODS, around.pod("ours", job_uid="job-a"))

    assert {each.name: each.ends_by for each in look(api, job).tenants or ()} == {"holder": None, "ours": 1796119260.0}
