"""What is around trainings that wait, seen through an API server in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster import surrounding_documents as around
from tests.unit.cluster.looking_around import Looker, add_kueue, furnished_api, opened, play
from tests.unit.cluster.watched_api import WatchedApi
from tests.unit.patience import until

from gpu_training.cluster.lookout import Lookout
from gpu_training.core.surroundings import Autoscaler

pytestmark = pytest.mark.unit


@pytest.fixture
def api(tmp_path: Path) -> Iterator[WatchedApi]:
    api = furnished_api(tmp_path)
    yield api
    api.stop()


@pytest.fixture
def kueue(api: WatchedApi) -> WatchedApi:
    add_kueue(api)
    return api


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


def test_an_event_wakes_the_training_it_is_about_and_no_other(api: WatchedApi) -> None:
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


def test_an_event_that_comes_again_is_news_and_one_that_is_gone_is_forgotten(api: WatchedApi) -> None:
    looker = Looker("pod-a")

    async def scene() -> None:
        async with opened(api, looker) as lookout:
            api.put(around.EVENTS, around.event("one", uid="pod-a"))
            await until(lambda: lookout.around({"pod-a"}).events, "the event")
            await until(lambda: looker.woken, "it wakes")
            before = looker.woken
            api.put(around.EVENTS, {**around.event("one", uid="pod-a"), "count": 7})
            await until(lambda: looker.woken > before, "it wakes again")
            assert [event.count for event in lookout.around({"pod-a"}).events or ()] == [7]
            api.remove(around.EVENTS, "one")
            await until(lambda: lookout.around().events == (), "it is gone")

    play(scene())


def test_each_training_is_given_its_own_events_and_those_of_other_kinds(api: WatchedApi) -> None:
    api.put(around.EVENTS, around.event("one", uid="pod-a"))
    api.put(around.EVENTS, around.event("two", uid="pod-b"))
    api.put(around.EVENTS, around.event("claim", kind="PersistentVolumeClaim", uid="claim", about="data"))

    async def scene() -> None:
        async with opened(api) as lookout:
            assert {event.uid for event in lookout.around({"pod-a", "job-a"}).events or ()} == {"pod-a", "claim"}
            assert {event.uid for event in lookout.around().events or ()} == {"pod-a", "pod-b", "claim"}

    play(scene())


def test_news_of_a_node_wakes_everybody_and_a_heartbeat_nobody(api: WatchedApi) -> None:
    lookers = Looker("job-a"), Looker("job-b")

    async def scene() -> None:
        async with opened(api, *lookers) as lookout:
            await until(lambda: all(each.woken for each in lookers), "the first look wakes everybody")
            before, nodes = lookers[0].woken, lookout.around().nodes
            api.put(around.NODES, {**around.node("gpu-1"), "heartbeat": 1})
            api.put(around.EVENTS, around.event("one", uid="job-a"))
            await until(lambda: lookers[0].woken > before, "a later event was seen")
            assert lookout.around().nodes is nodes
            before = lookers[1].woken
            api.put(around.NODES, around.node("gpu-1", cordoned=True))
            await until(lambda: lookers[1].woken > before, "the node's news wakes", 3)
            assert [node.cordoned for node in lookout.around().nodes or ()] == [True]

    play(scene())


def test_pods_of_the_own_namespace_are_seen_where_those_of_others_may_not_be(api: WatchedApi) -> None:
    api.refusals[around.ALL_PODS] = 403, "pods is forbidden"
    api.put(around.PODS, around.pod("ours"))

    async def scene() -> None:
        async with opened(api) as lookout:
            seen = lookout.around()
            assert [tenant.name for tenant in seen.tenants or ()] == ["ours"]
            assert not seen.tenants_everywhere
            assert seen.hidden == ("pods of other namespaces: the account may not list them",)

    play(scene())


def test_what_may_not_be_read_is_said_and_the_rest_is_seen(api: WatchedApi) -> None:
    for path in (around.NODES, around.EVENTS, around.QUOTAS, around.LIMITS, around.PODS, around.ALL_PODS):
        api.refusals[path] = 403, "forbidden"
    api.refusals[around.AUTOSCALER] = 403, "forbidden"

    async def scene() -> None:
        async with opened(api) as lookout:
            seen = lookout.around()
            assert (seen.nodes, seen.tenants, seen.events, seen.quotas, seen.limits) == (None,) * 5
            assert (seen.workloads, seen.autoscaler) == ((), Autoscaler.UNKNOWN)
            assert seen.hidden == (
                "nodes: the account may not list them",
                "pods of other namespaces: the account may not list them",
                "pods: the account may not list them",
                "events: the account may not list them",
                "resource quotas: the account may not list them",
                "limit ranges: the account may not list them",
                "autoscaler: the account may not read ConfigMap cluster-autoscaler-status in kube-system",
            )

    play(scene())
    assert api.count(around.NODES) == 1


def test_a_right_that_is_given_later_is_used(api: WatchedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_training.cluster.mirror.REFUSED_S", 0.2)
    api.refusals[around.NODES] = 403, "forbidden"
    looker = Looker()

    async def scene() -> None:
        async with opened(api, looker) as lookout:
            assert lookout.around().nodes is None
            del api.refusals[around.NODES]
            await until(lambda: lookout.around().nodes, "the nodes are known")
            assert lookout.around().hidden == ()

    play(scene())


def test_a_server_that_fails_for_a_while_takes_nothing_of_what_is_known(
    api: WatchedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.cluster.reflector.WATCH_S", 1)
    monkeypatch.setattr("gpu_training.cluster.mirror._TROUBLE_S", 0.5)

    async def scene() -> None:
        async with opened(api) as lookout:
            api.refusals[around.NODES] = 503, "not now"
            await until(lambda: lookout.around().hidden, "the trouble is said")
            (hidden,) = lookout.around().hidden
            assert hidden.startswith("nodes: ")
            assert "not now" in hidden
            assert [node.name for node in lookout.around().nodes or ()] == ["gpu-1"]
            del api.refusals[around.NODES]
            await until(lambda: lookout.around().hidden == (), "the trouble is over")

    play(scene())


def test_a_workload_has_its_place_in_the_queue(kueue: WatchedApi) -> None:
    looker = Looker("job-a")

    async def scene() -> None:
        async with opened(kueue, looker) as lookout:

            def places() -> dict[str, int | None]:
                return {each.job_uid: each.position for each in lookout.around().workloads or ()}

            await until(lambda: places() == {"job-a": 1, "job-b": 0}, "the places are known")
            before = looker.woken
            kueue.documents[around.POSITIONS.format("nightly")] = around.positions("job-a")
            kueue.put(around.WORKLOADS, around.workload("job-b", job_uid="job-b", admitted=True))
            await until(lambda: places() == {"job-a": 0, "job-b": None}, "the other one is gone")
            await until(lambda: looker.woken > before, "its new place wakes")

    play(scene())


def test_places_in_many_queues_are_known_one_queue_after_the_other(
    kueue: WatchedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.cluster.queue_positions.REFILL_S", 0.5)
    names = [f"queue-{number}" for number in range(6)]
    for name in names:
        kueue.put(around.WORKLOADS, around.workload(f"job-{name}", job_uid=name, queue=name))
        kueue.documents[around.POSITIONS.format(name)] = around.positions(f"job-{name}")

    async def scene() -> None:
        async with opened(kueue) as lookout:

            def known() -> int:
                return sum(each.position is not None for each in lookout.around().workloads or ())

            await until(lambda: 0 < known() < 8, "some places are known")
            await until(lambda: known() == 8, "all places are known")

    play(scene())


def test_news_of_a_workload_and_events_about_it_wake_its_training(kueue: WatchedApi) -> None:
    looker, other = Looker("job-a"), Looker("job-b")

    async def scene() -> None:
        async with opened(kueue, looker, other) as lookout:
            await until(
                lambda: all(each.position is not None for each in lookout.around().workloads or ()), "the places"
            )
            await until(lambda: other.woken, "the first look wakes everybody")
            before = looker.woken
            kueue.put(around.EVENTS, around.event("one", kind="Workload", uid="x", about="job-a", reason="Preempted"))
            await until(lambda: looker.woken > before, "the event wakes")
            assert [event.reason for event in lookout.around({"job-a"}).events or ()] == ["Preempted"]
            assert lookout.around({"job-b"}).events == ()

    play(scene())


def test_positions_that_may_not_be_read_are_hidden(kueue: WatchedApi) -> None:
    kueue.refusals[around.POSITIONS.format("nightly")] = 403, "forbidden"

    async def scene() -> None:
        async with opened(kueue) as lookout:
            await until(lambda: lookout.around().hidden, "it is said")
            assert lookout.around().hidden == (
                "queue positions: the account may not read pendingworkloads of local queues",
            )
            assert len(lookout.around().workloads or ()) == 2

    play(scene())


@pytest.mark.parametrize(
    ("groups", "documents", "autoscaler"),
    [
        (("batch", "karpenter.sh"), {}, Autoscaler.KARPENTER),
        (("batch",), {around.AUTOSCALER: {"data": {}}}, Autoscaler.CLUSTER_AUTOSCALER),
        (("batch",), {}, Autoscaler.NONE),
    ],
)
def test_an_autoscaler_is_known_by_what_it_leaves(
    api: WatchedApi, groups: tuple[str, ...], documents: dict[str, Any], autoscaler: Autoscaler
) -> None:
    api.documents |= {"/apis": around.groups(*groups), **documents}

    async def scene() -> None:
        async with opened(api) as lookout:
            assert lookout.around().autoscaler is autoscaler

    play(scene())


def test_an_autoscaler_that_is_gone_is_not_counted_on(api: WatchedApi) -> None:
    annotations = {"cluster-autoscaler.kubernetes.io/last-updated": "2021-10-19 19:06:41.612291737 +0000 UTC"}
    api.documents[around.AUTOSCALER] = {"metadata": {"annotations": annotations}}

    async def scene() -> None:
        async with opened(api) as lookout:
            assert lookout.around().autoscaler is Autoscaler.UNKNOWN
            assert lookout.around().hidden == (
                "autoscaler: the Cluster Autoscaler has written no status for 10 minutes",
            )

    play(scene())


def test_an_autoscaler_that_leaves_nothing_is_known_by_its_events(api: WatchedApi) -> None:
    api.put(around.EVENTS, around.event("one", uid="pod-a", source="cluster-autoscaler"))

    async def scene() -> None:
        async with opened(api) as lookout:
            assert lookout.around({"pod-b"}).autoscaler is Autoscaler.CLUSTER_AUTOSCALER

    play(scene())


def test_the_watches_end_a_while_after_the_last_training_and_begin_anew(
    api: WatchedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.cluster.lookout.LINGER_S", 0.3)
    monkeypatch.setattr("gpu_training.cluster.reflector.WATCH_S", 2)
    looker = Looker()

    async def scene() -> None:
        async with opened(api, looker) as lookout:
            lookout.end(looker)
            lookout.end(looker)
            assert lookout.around().nodes
            await until(lambda: lookout.around().nodes is None, "it looks no longer")
            await until(lambda: api.watching == 0, "every watch has ended")
            with lookout.looking(looker):
                await until(lambda: lookout.is_settled, "it looks again")
                assert lookout.around().nodes

    play(scene())


def test_one_training_s_end_leaves_the_watches_to_the_others(api: WatchedApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpu_training.cluster.lookout.LINGER_S", 0.0)
    first, second = Looker("job-a"), Looker("job-b")

    async def scene() -> None:
        async with opened(api, first, second) as lookout:
            lookout.end(first)
            api.put(around.EVENTS, around.event("one", uid="job-b"))
            await until(lambda: lookout.around({"job-b"}).events, "the event is seen")

    play(scene())


def test_no_secret_of_anybody_s_pod_is_kept(api: WatchedApi) -> None:
    async def scene() -> None:
        async with opened(api) as lookout:
            kept = repr(lookout.around())
            assert "holder" in kept
            assert "hunter2" not in kept
            assert "secret/image" not in kept

    play(scene())


def test_one_of_our_jobs_bounds_how_long_its_pod_holds_gpus(api: WatchedApi) -> None:
    api.put(around.ALL_PODS, around.pod("ours", job_uid="job-a"))
    job = {"status": {"startTime": "2026-12-01T10:00:00Z"}, "spec": {"activeDeadlineSeconds": 60}}

    async def scene() -> None:
        lookout = Lookout(api.address, around.NAMESPACE, {"job-a": job}.get)
        lookout.begin(Looker())
        await until(lambda: lookout.is_settled, "everything was looked at")
        bounds = {tenant.name: tenant.ends_by for tenant in lookout.around().tenants or ()}
        await lookout.close()
        assert bounds == {"holder": None, "ours": 1796119260.0}

    play(scene())
