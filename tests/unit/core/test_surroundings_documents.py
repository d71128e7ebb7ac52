"""Documents of what is around a training are read into values; what is odd reads as nothing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import JOB_UID, NAMESPACE, at, condition, moment, pod
from tests.unit.core.pending_world import DEDICATED, GPU, event, node, tenant, waiting_pod, workload

from gpu_training.core.surroundings import Happening, Limit, Node, QueueCondition, Quota, Taint
from gpu_training.core.surroundings_documents import (
    happening_of,
    limits_of,
    node_of,
    quota_of,
    tenant_of,
    workload_of,
)

pytestmark = pytest.mark.core


def test_a_node_is_read() -> None:
    read = node_of(node("n", gpus=3, capacity=4, labels={"pool": "a"}, taints=[DEDICATED], pressure="DiskPressure"))
    assert (read.name, read.labels["pool"], read.ready, read.cordoned) == ("n", "a", True, False)
    assert read.taints == (Taint(key="dedicated", value="ingest", effect="NoSchedule"),)
    assert read.pressures == ("DiskPressure",)
    assert (read.allocatable[GPU], read.capacity[GPU]) == (3, 4)
    assert read.allocatable["memory"] == 64 * 2**30


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_a_node_is_ready_only_when_it_says_so(status: str, ready: bool) -> None:
    assert node_of(node(ready=status)).ready is ready
    assert node_of({"metadata": {"name": "n"}}) == Node(name="n")


def test_a_tenant_is_read() -> None:
    read = tenant_of(tenant("t", "n", gpus=2, model="prices", made_by="prices-g1-1", deadline=60, priority=5))
    assert read is not None
    assert (read.namespace, read.name, read.node, read.priority) == (NAMESPACE, "t", "n", 5)
    assert (read.job, read.model, read.ends_by) == ("prices-g1-1", "prices", moment(60))
    assert (read.requests[GPU], read.requests["cpu"], read.nominated) == (2, 1, False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(phase: str) -> None:
    assert tenant_of(tenant(phase=phase)) is None


def test_a_pod_on_no_node_holds_nothing_unless_one_is_meant_for_it() -> None:
    assert tenant_of(waiting_pod()) is None
    meant = tenant_of(tenant(nominated=True))
    assert meant is not None
    assert (meant.node, meant.nominated) == ("g5-1", True)


@pytest.mark.parametrize(
    ("fields", "job", "ends_by"),
    [
        ({}, None, None),
        ({"deadline": 60}, None, moment(60)),
        ({"deadline": 60, "deleting": 30}, None, moment(30)),
        ({}, {"spec": {"activeDeadlineSeconds": 90}, "status": {"startTime": at(0)}}, moment(90)),
        ({"deadline": 60}, {"spec": {"activeDeadlineSeconds": 90}, "status": {"startTime": at(0)}}, moment(60)),
        ({}, {"spec": {"activeDeadlineSeconds": 90}}, None),
    ],
)
def test_a_tenant_ends_by_the_soonest_of_its_bounds(fields: Any, job: Any, ends_by: float | None) -> None:
    read = tenant_of(tenant(**fields), job)
    assert read is not None
    assert read.ends_by == ends_by


def test_the_label_tells_the_job_of_a_pod_that_has_lost_its_owner() -> None:
    orphan = pod(owner=None)
    orphan["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "j"}
    read = tenant_of(orphan)
    assert read is not None
    assert read.job == "j"
    owned = tenant()
    owned["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": "r", "controller": True}]
    assert getattr(tenant_of(owned), "job", None) == ""


def test_an_event_of_the_core_api_is_read() -> None:
    assert happening_of(event(waiting_pod() | {"kind": "Pod"}, "FailedMount", "no", source="kubelet")) == Happening(
        kind="Pod",
        name=waiting_pod()["metadata"]["name"],
        uid=waiting_pod()["metadata"]["uid"],
        reason="FailedMount",
        message="no",
        source="kubelet",
        warning=True,
        first_at=moment(10),
        last_at=moment(10),
    )


REGARDING = {
    "regarding": {"kind": "Pod", "name": "p", "uid": "u"},
    "type": "Normal",
    "reason": "Nominated",
    "note": "it",
}
MICRO = {"eventTime": "2026-11-30T19:24:05.500000Z"}


@pytest.mark.parametrize(
    ("times", "first", "last", "count"),
    [
        (MICRO, 5.5, 5.5, 1),
        ({**MICRO, "series": {"count": 4, "lastObservedTime": "2026-11-30T19:24:30.000000Z"}}, 5.5, 30, 4),
        ({"deprecatedFirstTimestamp": at(3), "deprecatedLastTimestamp": at(9), "deprecatedCount": 2}, 3, 9, 2),
        ({"firstTimestamp": at(3), "lastTimestamp": at(9), "count": 7}, 3, 9, 7),
        ({"metadata": {"creationTimestamp": at(8)}}, 8, 8, 1),
        ({"firstTimestamp": at(3), "lastTimestamp": None}, 3, 3, 1),
    ],
)
def test_the_times_of_an_event_are_found_wherever_they_are(times: Any, first: float, last: float, count: int) -> None:
    read = happening_of({**REGARDING, "reportingController": "karpenter", **times})
    assert (read.kind, read.uid, read.message, read.source, read.warning) == ("Pod", "u", "it", "karpenter", False)
    assert (read.first_at, read.last_at, read.count) == (moment(0) + first, moment(0) + last, count)


@pytest.mark.parametrize("field", ["message", "note"])
def test_an_event_that_stands_for_many_says_what_the_last_of_them_said(field: str) -> None:
    said = 'Failed to pull image "a:1": not today'
    combined = {**REGARDING, "note": "", field: f"(combined from similar events): {said}"}
    assert happening_of(combined).message == said
    assert happening_of({**combined, field: f"{said} (combined from similar events): "}).message.startswith(said)


def test_a_quota_and_limits_are_read() -> None:
    hard, used = {"requests.nvidia.com/gpu": "2"}, {"requests.nvidia.com/gpu": "1"}
    metadata = {"name": "q"}
    assert quota_of({"metadata": metadata, "status": {"hard": hard, "used": used}}) == Quota(
        name="q", hard=hard, used=used
    )
    assert quota_of({"metadata": metadata, "spec": {"hard": hard}}) == Quota(name="q", hard=hard)
    rules = [{"type": "Container", "max": {"memory": "1Gi"}, "min": {"cpu": "1m"}}, {"type": "Pod"}]
    assert limits_of({"metadata": metadata, "spec": {"limits": rules}}) == (
        Limit(name="q", kind="Container", minimum={"cpu": "1m"}, maximum={"memory": "1Gi"}),
        Limit(name="q", kind="Pod"),
    )


def test_a_workload_is_read() -> None:
    document = workload(condition("QuotaReserved", status="False", reason="Pending", message="no"), queue="q")
    read = workload_of(document)
    assert (read.job_uid, read.queue, read.active, read.position) == (JOB_UID, "q", True, None)
    assert read.conditions == (
        QueueCondition(type="QuotaReserved", holds=False, reason="Pending", message="no", changed_at=moment(10)),
    )
    assert workload_of(workload(active=False)).active is False


QUOTA = {"metadata": {"name": "q"}, "status": {"hard": {"pods": "1"}}, "spec": {"limits": [{"type": "Pod"}]}}


@given(damaged(node(taints=[DEDICATED]), tenant(model="m"), event(pod(), "Failed", "x"), workload(), QUOTA) | anything)
def test_any_document_is_read(document: Any) -> None:
    read = node_of(document)
    amounts = [*read.allocatable.values(), *read.capacity.values()]
    assert all(isinstance(amount, Fraction) and amount >= 0 for amount in amounts)
    assert hash(read.taints) is not None
    held = tenant_of(document)
    assert held is None or held.node
    assert happening_of(document).count >= 1
    assert quota_of(document).name == workload_of(document).name
    assert all(limit.name == quota_of(document).name for limit in limits_of(document))
