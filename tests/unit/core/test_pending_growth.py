"""What an autoscaler does, says and does not say decides whether the lack of a node is final."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import pod
from tests.unit.core.pending_world import DEDICATED, TAINTED, TAKEN, around, event, node, report_of, tenant, waiting_pod
from tests.unit.core.test_pending_scheduling import MEMORY, SELECTOR

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.surroundings import Autoscaler

pytestmark = pytest.mark.core

AUTOSCALED = [
    ("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 3)}]", Cause.AUTOSCALER_SCALING_UP, "gpu-pool"),
    (
        "NotTriggerScaleUp",
        "pod didn't trigger scale-up: 1 max node group size reached",
        Cause.AUTOSCALER_AT_MAXIMUM,
        "max node group size",
    ),
]


@pytest.mark.parametrize(("reason", "message", "cause", "says"), AUTOSCALED)
@pytest.mark.parametrize("nodes", [[node(gpus=0)], [node(gpus=1)], []])
def test_what_the_autoscaler_does_goes_before_what_nodes_are_like(
    nodes: list[Any], reason: str, message: str, cause: Cause, says: str
) -> None:
    waiting = waiting_pod()
    said = event(waiting, reason, message, source="cluster-autoscaler")
    later = event(waiting, "FailedScheduling", TAKEN, source="default-scheduler", second=20)
    seen = around(nodes, [tenant()], [said, later], autoscaler=Autoscaler.CLUSTER_AUTOSCALER)
    report = report_of([waiting], seen)
    assert report.cause is cause
    assert report.curable
    assert says in report.summary


def test_an_autoscaler_that_can_not_help_leaves_a_taint_to_whoever_asks() -> None:
    waiting = waiting_pod(TAINTED)
    message = "pod didn't trigger scale-up: 2 node(s) had untolerated taint {dedicated: ingest}"
    said = event(waiting, "NotTriggerScaleUp", message, source="cluster-autoscaler", first=10, second=70)
    nodes, present = [node(taints=[DEDICATED])], Autoscaler.CLUSTER_AUTOSCALER
    report = report_of([waiting], around(nodes, events=[said], autoscaler=present))
    assert (report.cause, report.cure) == (Cause.TAINT_NOT_TOLERATED, Cure.NEVER)
    assert "no kind of node" in report.remedy
    once = event(waiting, "NotTriggerScaleUp", message, source="cluster-autoscaler", first=10, second=69)
    for_a_moment = report_of([waiting], around(nodes, events=[once], autoscaler=present), second=300)
    assert (for_a_moment.cause, for_a_moment.cure) == (Cause.TAINT_NOT_TOLERATED, Cure.WAITING)
    assert "If it says so for 60 s, the run ends." in for_a_moment.remedy
    not_said = report_of([waiting], around(nodes, autoscaler=present))
    assert (not_said.cause, not_said.cure) == (Cause.TAINT_NOT_TOLERATED, Cure.WAITING)
    long_ago = report_of([waiting], around(nodes, events=[said], autoscaler=present), second=1000)
    assert long_ago.cure is Cure.WAITING
    of_another = event(waiting, "NotTriggerScaleUp", message, source="cluster-autoscaler", uid="uid-of-another")
    assert report_of([waiting], around(nodes, events=[of_another], autoscaler=present)).cure is Cure.WAITING


def test_a_cloud_that_has_no_node_leaves_hope() -> None:
    waiting = waiting_pod(TAINTED)
    said = event(waiting, "FailedScheduling", "InsufficientCapacityError: no g5 in the zone", source="karpenter")
    report = report_of([waiting], around([node(gpus=0)], events=[said], autoscaler=Autoscaler.KARPENTER))
    assert (report.cause, report.cure) == (Cause.NO_GPU_NODES, Cure.WAITING)
    assert "got none" in report.remedy


def test_a_node_that_has_been_on_its_way_for_too_long_is_no_hope_told() -> None:
    waiting = waiting_pod()
    said = event(waiting, "TriggeredScaleUp", "pod triggered scale-up: [x]", source="cluster-autoscaler", second=10)
    seen = around([node(gpus=0)], events=[said], autoscaler=Autoscaler.CLUSTER_AUTOSCALER)
    assert report_of([waiting], seen, second=900).cause is Cause.AUTOSCALER_SCALING_UP
    assert report_of([waiting], seen, second=911).cause is Cause.NO_GPU_NODES


REFUSES = ("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 node(s) had untolerated taint {dedicated: ingest}")
ADDS = ("TriggeredScaleUp", "pod triggered scale-up: [{gpu-pool 0->1 (max: 3)}]")
FULL = ("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
EMPTY = ("NotTriggerScaleUp", "pod didn't trigger scale-up: ")


@pytest.mark.parametrize(
    ("said", "cause", "cure"),
    [
        # Each: what, when first, when last.
        ([(ADDS, 10, 10), (REFUSES, 20, 300)], Cause.AUTOSCALER_SCALING_UP, Cure.TRANSIENT),
        ([(ADDS, 10, 10), (EMPTY, 20, 300)], Cause.AUTOSCALER_SCALING_UP, Cure.TRANSIENT),
        ([(ADDS, 10, 10), (FULL, 20, 20), (REFUSES, 30, 300)], Cause.TAINT_NOT_TOLERATED, Cure.NEVER),
        ([(FULL, 250, 250), (REFUSES, 30, 300)], Cause.TAINT_NOT_TOLERATED, Cure.WAITING),
        ([(REFUSES, 30, 30), ((REFUSES[0], REFUSES[1] + " "), 90, 90)], Cause.TAINT_NOT_TOLERATED, Cure.NEVER),
        ([(REFUSES, 30, 250), (EMPTY, 260, 300)], Cause.TAINT_NOT_TOLERATED, Cure.WAITING),
        ([(EMPTY, 10, 300)], Cause.TAINT_NOT_TOLERATED, Cure.WAITING),
    ],
)
def test_a_node_on_its_way_outweighs_a_later_no_and_a_no_has_to_be_insisted_on(
    said: list[Any], cause: Cause, cure: Cure
) -> None:
    waiting = waiting_pod(TAINTED)
    events = [
        event(waiting, *what, source="cluster-autoscaler", first=first, second=last) for what, first, last in said
    ]
    for autoscaler in Autoscaler:
        seen = around([node(taints=[DEDICATED])], events=events, autoscaler=autoscaler)
        report = report_of([waiting], seen, second=310)
        assert (report.cause, report.cure) == (cause, cure)


STRUCTURAL: list[tuple[list[Any], dict[str, Any], Cause]] = [
    ([], {}, Cause.NO_GPU_NODES),
    ([node(gpus=0)], {}, Cause.NO_GPU_NODES),
    ([node(gpus=1)], {"gpus": 2}, Cause.TOO_FEW_GPUS),
    ([node(taints=[DEDICATED])], {}, Cause.TAINT_NOT_TOLERATED),
    ([node()], {"spec": SELECTOR}, Cause.LABEL_NOT_MATCHED),
    ([node(memory="32Gi")], {"spec": MEMORY}, Cause.TOO_LITTLE_CPU_OR_MEMORY),
]


@pytest.mark.case("C036")
@pytest.mark.parametrize(("nodes", "fields", "cause"), STRUCTURAL)
@pytest.mark.parametrize(("autoscaler", "patience"), [(Autoscaler.NONE, 30), (Autoscaler.UNKNOWN, 180)])
def test_an_autoscaler_that_nobody_knows_of_has_time_to_speak(
    nodes: list[Any], fields: dict[str, Any], cause: Cause, autoscaler: Autoscaler, patience: int
) -> None:
    """One may be there under another name, or without leaving anything that tells of it."""
    waiting = waiting_pod(**fields)
    for second, cure in ((patience, Cure.WAITING), (patience + 1, Cure.NEVER)):
        report = report_of([waiting], around(nodes, autoscaler=autoscaler), second=second)
        assert (report.cause, report.cure) == (cause, cure)
        ending = f"If no autoscaler answers within {patience} s, the run ends."
        assert (ending in report.remedy) is report.curable
        unread = report_of([waiting], around(nodes, events=None, autoscaler=autoscaler), second=second)
        assert (unread.cure, "the run ends" in unread.remedy) == (Cure.WAITING, False)
        other = event(pod(name="other"), *ADDS, source="cluster-autoscaler", uid="uid-of-another")
        heard = report_of([waiting], around(nodes, events=[other], autoscaler=autoscaler), second=second)
        assert heard.cure is Cure.WAITING


def test_no_end_is_announced_to_who_waits_for_others() -> None:
    report = report_of([waiting_pod()], around([node(gpus=1)], [tenant()]), second=5)
    assert "No autoscaler was found." in report.remedy
    assert "the run ends" not in report.remedy
