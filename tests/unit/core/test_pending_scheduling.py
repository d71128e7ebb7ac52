"""Why a pod has no node: what the nodes are like, what the scheduler says, what the autoscaler does."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import JOB_NAME, condition, disruption, failed_pod
from tests.unit.core.pending_world import (
    DEDICATED,
    GPU,
    GPU_TAINT,
    NO_VICTIMS,
    NOT_HELPFUL,
    TAINTED,
    TAKEN,
    TOO_FEW,
    UNMATCHED,
    around,
    event,
    node,
    report_of,
    tenant,
    waiting_pod,
)

from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core

LOST = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
PRESSED = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
SELECTOR = {"nodeSelector": {"pool": "a100"}}
AFFINITY = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["mars"]}]}]
            }
        }
    }
}
MEMORY = {"containers": [{"name": "training", "resources": {"limits": {GPU: "1", "memory": "48Gi"}}}]}


def forgotten(**offers: str) -> Any:
    """Give a node whose device plugin went away so long ago that the kubelet counts no GPUs any more."""
    document = node(gpus=0, labels={"nvidia.com/gpu.present": "true"} if offers else {})
    for amounts in (document["status"]["capacity"], document["status"]["allocatable"]):
        amounts |= {GPU: "0", **offers}
    return document


BY_NODES: list[tuple[str, list[Any], list[Any], dict[str, Any], Cause, Cure, str]] = [
    (
        "all taken",
        [node(gpus=1)],
        [tenant()],
        {},
        Cause.GPUS_TAKEN,
        Cure.WAITING,
        f"the only {GPU} of 1 matching node is taken",
    ),
    (
        "free in pieces",
        [node("a", gpus=2), node("b", gpus=2)],
        [tenant("x", "a"), tenant("y", "b")],
        {"gpus": 2},
        Cause.GPUS_TAKEN,
        Cure.WAITING,
        f"2 of 4 {GPU} of 2 matching nodes are free, at most 1",
    ),
    ("no node has any", [node(gpus=0)], [], {}, Cause.NO_GPU_NODES, Cure.NEVER, f"No node offers {GPU}"),
    ("no nodes", [], [], {}, Cause.NO_GPU_NODES, Cure.NEVER, "no nodes"),
    ("too few", [node(gpus=2)], [], {"gpus": 4}, Cause.TOO_FEW_GPUS, Cure.NEVER, "asks for 4 GPUs on one node"),
    ("plugin away", [node(gpus=0, capacity=4)], [], {}, Cause.DEVICE_PLUGIN_DOWN, Cure.TRANSIENT, "device plugin"),
    (
        "plugin away, seen by a label",
        [node(gpus=0, labels={"nvidia.com/gpu.present": "true"})],
        [],
        {},
        Cause.DEVICE_PLUGIN_DOWN,
        Cure.TRANSIENT,
        "device plugin",
    ),
    ("plugin long away", [forgotten()], [], {}, Cause.DEVICE_PLUGIN_DOWN, Cure.TRANSIENT, "device plugin"),
    (
        "GPUs in parts only",
        [forgotten(**{"nvidia.com/mig-1g.10gb": "7"})],
        [],
        {},
        Cause.NO_GPU_NODES,
        Cure.NEVER,
        "g5-1 offers nvidia.com/mig-1g.10gb",
    ),
    (
        "some GPUs unhealthy",
        [node(gpus=3, capacity=4)],
        [],
        {"gpus": 4},
        Cause.DEVICE_PLUGIN_DOWN,
        Cure.TRANSIENT,
        "device plugin",
    ),
    (
        "fewer than asked, plugin or not",
        [node(gpus=0, labels={"nvidia.com/gpu.count": "2"})],
        [],
        {"gpus": 4},
        Cause.TOO_FEW_GPUS,
        Cure.NEVER,
        "asks for 4 GPUs on one node",
    ),
    (
        "taint",
        [node(taints=[GPU_TAINT, DEDICATED]), node("cpu", gpus=0)],
        [],
        {},
        Cause.TAINT_NOT_TOLERATED,
        Cure.NEVER,
        "dedicated=ingest:NoSchedule of g5-1",
    ),
    ("selector", [node()], [], {"spec": SELECTOR}, Cause.LABEL_NOT_MATCHED, Cure.NEVER, "the label pool=a100"),
    ("affinity", [node()], [], {"spec": AFFINITY}, Cause.LABEL_NOT_MATCHED, Cure.NEVER, "(zone=mars)"),
    ("cordoned", [node(cordoned=True)], [], {}, Cause.NODES_CORDONED, Cure.WAITING, "g5-1 is cordoned"),
    ("cordoned by taint", [node(taints=[CORDONED])], [], {}, Cause.NODES_CORDONED, Cure.WAITING, "is cordoned"),
    ("not ready", [node(ready="False")], [], {}, Cause.NODES_NOT_READY, Cure.TRANSIENT, "g5-1 is not ready"),
    ("lost", [node(ready="Unknown", taints=[LOST])], [], {}, Cause.NODES_NOT_READY, Cure.TRANSIENT, "is not ready"),
    ("pressed", [node(pressure="DiskPressure")], [], {}, Cause.NODES_UNDER_PRESSURE, Cure.TRANSIENT, "DiskPressure"),
    ("pressed by taint", [node(taints=[PRESSED])], [], {}, Cause.NODES_UNDER_PRESSURE, Cure.TRANSIENT, "DiskPressure"),
    (
        "too little memory",
        [node(memory="32Gi")],
        [],
        {"spec": MEMORY},
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cure.NEVER,
        "asks for 48Gi of memory on one node, and no node that matches has more than 32Gi.",
    ),
    (
        "memory taken",
        [node()],
        [tenant(memory="32Gi")],
        {"spec": MEMORY},
        Cause.CPU_OR_MEMORY_TAKEN,
        Cure.WAITING,
        "Waiting for 48Gi of memory",
    ),
    (
        "as many pods as it may",
        [node(pods="1")],
        [tenant(gpus=0)],
        {},
        Cause.CPU_OR_MEMORY_TAKEN,
        Cure.WAITING,
        "pods",
    ),
]


@pytest.mark.parametrize(
    ("nodes", "tenants", "fields", "cause", "cure", "says"),
    [row[1:] for row in BY_NODES],
    ids=[row[0] for row in BY_NODES],
)
def test_what_the_nodes_are_like_is_the_cause(
    nodes: list[Any], tenants: list[Any], fields: dict[str, Any], cause: Cause, cure: Cure, says: str
) -> None:
    report = report_of([waiting_pod(**fields)], around(nodes, tenants))
    assert (report.cause, report.cure) == (cause, cure), report
    assert says in report.summary
    assert report.remedy
    assert sum(each.count for each in report.nodes) == len(nodes)
    assert all(each.cause is not None for each in report.nodes)
    assert report.words == TAKEN


def test_the_node_nearest_to_taking_the_pod_decides() -> None:
    """One that is not ready keeps hope up, whatever the others lack."""
    nodes = [node("no-gpu", gpus=0), node("foreign", taints=[DEDICATED]), node("small", gpus=1)]
    alone = report_of([waiting_pod(gpus=2)], around(nodes))
    assert (alone.cause, alone.cure) == (Cause.TAINT_NOT_TOLERATED, Cure.NEVER)
    with_hope = report_of([waiting_pod(gpus=2)], around([*nodes, node("down", ready="Unknown")]))
    assert (with_hope.cause, with_hope.cure) == (Cause.NODES_NOT_READY, Cure.TRANSIENT)
    assert {each.cause: each.count for each in with_hope.nodes} == {
        Cause.NODES_NOT_READY: 1,
        Cause.TAINT_NOT_TOLERATED: 1,
        Cause.TOO_FEW_GPUS: 1,
        Cause.NO_GPU_NODES: 1,
    }


def test_nodes_that_retries_keep_away_from_are_told_as_such() -> None:
    """Written by ours into the affinity of a retry's pods, after a failure that asks for another node."""
    names = [{"key": "metadata.name", "operator": "NotIn", "values": ["g5-1"]}]
    required = {"nodeSelectorTerms": [{"matchFields": names}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    report = report_of([waiting_pod(spec={"affinity": affinity})], around([node()]))
    assert (report.cause, report.cure) == (Cause.LABEL_NOT_MATCHED, Cure.NEVER)
    assert "g5-1 is left out by its name" in report.summary
    assert "Retries keep away from nodes on which an attempt failed" in report.remedy


def test_a_node_that_comes_up_may_offer_gpus_soon() -> None:
    booting = node("new", gpus=0, ready="False")
    report = report_of([waiting_pod()], around([node("cpu", gpus=0), booting]))
    assert (report.cause, report.cure) == (Cause.NO_GPU_NODES, Cure.WAITING)
    assert "the run ends" not in report.remedy


@pytest.mark.parametrize(
    "key",
    [
        "node.cilium.io/agent-not-ready",
        "ebs.csi.aws.com/agent-not-ready",
        "startup-taint.cluster-autoscaler.kubernetes.io/gpu-driver",
        "karpenter.sh/unregistered",
        "node.cloudprovider.kubernetes.io/uninitialized",
    ],
)
def test_a_node_that_is_being_set_up_is_waited_for(key: str) -> None:
    booting = node(taints=[{"key": key, "value": "true", "effect": "NoSchedule"}])
    report = report_of([waiting_pod()], around([booting]))
    assert (report.cause, report.cure) == (Cause.NODES_NOT_READY, Cure.TRANSIENT)


def test_gpus_of_another_name_are_pointed_out() -> None:
    sliced = node("a100-1", gpus=0)
    sliced["status"]["allocatable"]["nvidia.com/mig-1g.10gb"] = "7"
    report = report_of([waiting_pod()], around([node(gpus=0), sliced]))
    assert report.cause is Cause.NO_GPU_NODES
    assert "a100-1 offers nvidia.com/mig-1g.10gb" in report.summary


def test_who_holds_the_gpus_is_named_with_the_soonest_end_first() -> None:
    tenants = [
        tenant("endless", "a", gpus=2, made_by="notebook", namespace="research"),
        tenant("late", "a", deadline=7200, model="prices"),
        tenant("soon", "b", deadline=3600, model="flight-delay"),
        tenant("leaving", "b", deleting=600),
        tenant("elsewhere", "c", deadline=60),
        tenant("without", "a", gpus=0, deadline=30),
    ]
    nodes = [node("a", gpus=3), node("b", gpus=2), node("c", taints=[DEDICATED])]
    report = report_of([waiting_pod()], around(nodes, tenants))
    assert [holder.who for holder in report.holders] == [
        "pod leaving",
        "pod soon of model flight-delay",
        "pod late of model prices",
        "pod endless of Job notebook in namespace research",
    ]
    assert [holder.gpus for holder in report.holders] == [1, 1, 1, 2]
    assert report.holders[-1].ends_by is None


def test_room_that_is_meant_for_a_more_urgent_pod_is_not_free() -> None:
    urgent = tenant("urgent", priority=100, nominated=True)
    assert report_of([waiting_pod()], around([node(gpus=1)], [urgent])).cause is Cause.GPUS_TAKEN
    lesser = tenant("lesser", priority=-1, nominated=True)
    assert report_of([waiting_pod()], around([node(gpus=1)], [lesser])).summary.startswith("Waiting for 1 GPU: the")


WORDS_ALONE = [
    (TAKEN, Cause.GPUS_TAKEN, Cure.WAITING),
    # The same is said while a device plugin starts anew.
    (TOO_FEW, Cause.TOO_FEW_GPUS, Cure.WAITING),
    (
        f"0/2 nodes are available: 1 Insufficient memory, 1 Insufficient {GPU}. {NOT_HELPFUL}",
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cure.WAITING,
    ),
    (
        f"0/2 nodes are available: 2 Insufficient memory. {NOT_HELPFUL}",
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cure.NEVER,
    ),
    (UNMATCHED, Cause.LABEL_NOT_MATCHED, Cure.NEVER),
    # 1.37 does not name the taint, which may be that of a node that is not ready for a moment.
    (TAINTED, Cause.TAINT_NOT_TOLERATED, Cure.WAITING),
    (
        "0/3 nodes are available: 3 node(s) had untolerated taint {dedicated: ingest}. " + NOT_HELPFUL,
        Cause.TAINT_NOT_TOLERATED,
        Cure.NEVER,
    ),
    (
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't match Pod's node affinity/selector. "
        + NOT_HELPFUL,
        Cause.LABEL_NOT_MATCHED,
        Cure.WAITING,
    ),
    (
        f"0/3 nodes are available: 2 node(s) had untolerated taint(s), 1 Insufficient {GPU}. {NO_VICTIMS}",
        Cause.GPUS_TAKEN,
        Cure.WAITING,
    ),
    ("the moon is in the wrong house", Cause.UNSCHEDULABLE, Cure.WAITING),
]


@pytest.mark.parametrize(("message", "cause", "cure"), WORDS_ALONE)
def test_where_nodes_are_hidden_the_scheduler_is_believed(message: str, cause: Cause, cure: Cure) -> None:
    hidden = ("nodes: the account may not list them",)
    report = report_of([waiting_pod(message)], around(None, None, hidden=hidden))
    assert (report.cause, report.cure) == (cause, cure)
    assert report.words == message
    assert report.hidden == hidden
    assert report == report_of([waiting_pod(message)], around([node()], hidden=hidden), demand=False)


def test_pods_that_can_not_be_seen_are_believed_to_hold_what_the_scheduler_misses() -> None:
    nodes = [node("a"), node("b", gpus=0)]
    for seen in (around(nodes, None), around(nodes, [tenant(on="a")], everywhere=False)):
        report = report_of([waiting_pod()], seen)
        assert (report.cause, report.cure) == (Cause.GPUS_TAKEN, Cure.WAITING)
        assert "could not all be seen" in report.summary
        assert report.nearest == ""


def test_room_that_the_scheduler_has_not_tried_yet_is_told() -> None:
    report = report_of([waiting_pod()], around([node("a")]))
    assert report.cause is Cause.GPUS_TAKEN
    assert "has not tried again since there is room on a" in report.summary


def test_where_pods_of_others_are_hidden_no_more_is_said_than_is_known() -> None:
    held = [tenant("x", "a", gpus=3), tenant("y", "b", gpus=3)]
    report = report_of([waiting_pod(gpus=2)], around([node("a"), node("b")], held, everywhere=False))
    assert report.summary == "Waiting for 2 GPUs: of 8 nvidia.com/gpu of 2 matching nodes, 6 or more are taken."
    assert report.nearest == "1 GPU may fit now on a and 1 more node"


CLAIM = 'persistentvolumeclaim "data" not found'
ELSEWHERE = f"0/2 nodes are available: 2 node(s) had volume node affinity conflict. {NOT_HELPFUL}"
OF_THE_POD = [
    (f"0/2 nodes are available: {CLAIM}. not found", Cause.VOLUME_CLAIM_MISSING, Cure.NEVER, "data"),
    (
        f"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {NOT_HELPFUL}",
        Cause.VOLUME_UNBOUND,
        Cure.WAITING,
        "claim",
    ),
    (ELSEWHERE, Cause.VOLUME_ELSEWHERE, Cure.NEVER, "volume"),
    (
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. " + NO_VICTIMS,
        Cause.UNSCHEDULABLE,
        Cure.WAITING,
        "affinity",
    ),
    ("0/2 nodes are available: 2 of a kind. " + NO_VICTIMS, Cause.UNSCHEDULABLE, Cure.WAITING, "2 of a kind"),
]


@pytest.mark.parametrize(("message", "cause", "cure", "says"), OF_THE_POD)
def test_what_nodes_do_not_tell_the_scheduler_does(message: str, cause: Cause, cure: Cure, says: str) -> None:
    report = report_of([waiting_pod(message)], around([node("a"), node("b")]))
    assert (report.cause, report.cure) == (cause, cure)
    assert says in report.summary


UNBOUND = f"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. {NOT_HELPFUL}"


def test_what_is_said_of_a_claim_that_is_not_bound_is_told() -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    waiting = waiting_pod(UNBOUND, spec={"volumes": volumes})
    words = 'storageclass.storage.k8s.io "fast" not found'

    def about(name: str, second: int = 10) -> Any:
        claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "uid": f"uid-of-{name}"}}
        return event(claim, "ProvisioningFailed", words, source="persistentvolume-controller", second=second)

    report = report_of([waiting], around([node()], events=[about("data")]))
    assert report.cause is Cause.VOLUME_UNBOUND
    assert "data" in report.summary
    assert "storage class fast" in report.summary
    for another in (about("other"), {**about("data"), "lastTimestamp": "2026-11-30T19:00:00Z"}):
        assert "fast" not in report_of([waiting], around([node()], events=[another])).summary


def test_a_volume_elsewhere_is_waited_for_while_a_node_there_may_become_free() -> None:
    message = (
        f"0/2 nodes are available: 1 Insufficient {GPU}, 1 node(s) had volume node affinity conflict. {NO_VICTIMS}"
    )
    report = report_of([waiting_pod(message)], around([node("a"), node("b", gpus=1)], [tenant(on="b")]))
    assert (report.cause, report.cure) == (Cause.VOLUME_ELSEWHERE, Cure.WAITING)


def test_a_node_that_would_take_the_pod_is_named_though_the_scheduler_says_otherwise() -> None:
    report = report_of([waiting_pod(UNMATCHED)], around([node("a")]))
    assert (report.cause, report.cure) == (Cause.UNSCHEDULABLE, Cure.WAITING)
    assert "it could run now on a;" in report.summary


@pytest.mark.case("C021")
def test_one_that_made_way_and_waits_again_is_told_so() -> None:
    earlier = failed_pod(143, name=f"{JOB_NAME}-first", created=0)
    earlier["status"]["conditions"].append(disruption(9, "PreemptionByScheduler", "preempting"))
    again = waiting_pod(created=30)
    seen = around([node(gpus=1)], [tenant("urgent", model="prices", priority=9)])
    for pods, gone in (([earlier, again], []), ([again], [earlier])):
        report = report_of(pods, seen, gone=gone)
        assert (report.cause, report.cure) == (Cause.PREEMPTED, Cure.WAITING)
        assert "made way for a pod of higher priority on gpu-1. Waiting for 1 GPU" in report.summary
        assert [holder.who for holder in report.holders] == ["pod urgent of model prices"]


def test_one_that_was_evicted_is_not_said_to_have_been_preempted() -> None:
    earlier = failed_pod(143, name=f"{JOB_NAME}-first", created=0)
    earlier["status"]["conditions"].append(disruption(9))
    report = report_of([earlier, waiting_pod(created=30)], around([node(gpus=1)], [tenant()]))
    assert report.cause is Cause.GPUS_TAKEN


PREEMPTING = [
    f"0/1 nodes are available: 1 Insufficient {GPU}. preemption: found a potential placement for pod on node g5-1, "
    "preempting 1 victims",
    f"0/1 nodes are available: 1 Insufficient {GPU}. preemption: not eligible due to a terminating pod on the "
    "nominated node.",
]


@pytest.mark.parametrize("message", PREEMPTING)
def test_others_that_are_being_ended_for_it_are_waited_for(message: str) -> None:
    report = report_of([waiting_pod(message)], around([node(gpus=1)], [tenant()]))
    assert (report.cause, report.cure) == (Cause.PREEMPTING, Cure.WAITING)


def test_gates_are_named() -> None:
    gated = waiting_pod(
        "Scheduling is blocked due to non-empty scheduling gates",
        reason="SchedulingGated",
        spec={"schedulingGates": [{"name": "example.com/budget"}]},
    )
    report = report_of([gated], around([node()]))
    assert (report.cause, report.cure) == (Cause.SCHEDULING_GATED, Cure.WAITING)
    assert "example.com/budget" in report.summary


@pytest.mark.parametrize(("second", "cause"), [(2, Cause.WAITING), (3, Cause.SCHEDULER_SILENT)])
def test_a_scheduler_that_says_nothing_is_told_of(second: int, cause: Cause) -> None:
    report = report_of([waiting_pod("")], around([node()]), second=second)
    assert (report.cause, report.cure) == (cause, Cure.TRANSIENT)


def test_a_scheduler_that_does_not_exist_is_named() -> None:
    report = report_of([waiting_pod("", spec={"schedulerName": "nobody"})], around([node()]))
    assert (report.cause, report.cure) == (Cause.SCHEDULER_SILENT, Cure.WAITING)
    assert "nobody" in report.summary


def test_a_condition_that_says_nothing_counts_as_silence() -> None:
    silent = waiting_pod("")
    silent["status"]["conditions"] = [condition("PodScheduled", status="False", reason="Unschedulable")]
    assert report_of([silent], around([node()])).cause is Cause.SCHEDULER_SILENT
