"""Whatever documents hold, a diagnosis is a report or none, the same one for the same documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import (
    NODE,
    complete,
    condition,
    container,
    disruption,
    failed,
    failed_pod,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    waiting,
)
from tests.unit.core.pending_world import (
    DEDICATED,
    TAINTED,
    TAKEN,
    around,
    event,
    node,
    queued_job,
    report_of,
    tenant,
    told,
    untaken_job,
    waiting_pod,
    workload,
)
from tests.unit.core.test_pending_job import NO_ACCOUNT, QUEUED_WORDS, QUOTA, refusal, reserved
from tests.unit.core.test_pending_pod import NO_SECRET, RATE_LIMITED

from gpu_training.core.observation import observe
from gpu_training.core.pending import diagnose
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_document import LONGEST, from_document, to_document
from gpu_training.core.pending_text import line, table
from gpu_training.core.pod_demand import demand_of
from gpu_training.core.surroundings import Autoscaler, Surroundings

pytestmark = pytest.mark.core

UNSCHEDULED = waiting_pod()
STARTING = pod("Pending", container(waiting("ImagePullBackOff", "x")), name="starting")
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["g5-1"]}],
                }
            ]
        }
    }
}

jobs = damaged(
    job(),
    untaken_job(),
    queued_job(),
    complete(),
    failed(),
    job(spec={"parallelism": 3, "completions": 3}),
    job(condition("FailureTarget")),
)
pods = damaged(
    UNSCHEDULED,
    STARTING,
    waiting_pod(TAINTED, spec={"nodeSelector": {"pool": "a"}, "affinity": AFFINITY}, name="picky"),
    waiting_pod("", spec={"schedulerName": "nobody"}, name="silent"),
    waiting_pod("gated", reason="SchedulingGated", spec={"schedulingGates": [{"name": "g"}]}, name="gated"),
    pod("Running", container(running()), conditions=[disruption(9)], name="runs"),
    failed_pod(name="failed"),
    succeeded_pod(name="succeeded"),
)
nodes = damaged(
    node(gpus=1),
    node(NODE, taints=[DEDICATED]),
    node("g5-3", ready="Unknown", cordoned=True, pressure="DiskPressure", labels={"pool": "a"}),
)
tenants = damaged(tenant(deadline=60), tenant("b", NODE, gpus=4, model="m"), tenant("c", nominated=True))
events = damaged(
    refusal(QUOTA),
    refusal(NO_ACCOUNT),
    event(UNSCHEDULED, "TriggeredScaleUp", "pod triggered scale-up: [x]", source="cluster-autoscaler"),
    event(STARTING, "FailedMount", NO_SECRET, source="kubelet"),
    event(STARTING, "Failed", RATE_LIMITED, source="kubelet"),
)
workloads = damaged(workload(reserved(QUEUED_WORDS)), workload(condition("Admitted")), workload(active=False))
surroundings = st.builds(
    around,
    st.none() | st.lists(nodes, max_size=4),
    st.none() | st.lists(tenants, max_size=4),
    st.none() | st.lists(events, max_size=4),
    st.none() | st.lists(workloads, max_size=2),
    autoscaler=st.sampled_from(Autoscaler),
)
seconds = st.integers(0, 2000)


@given(jobs, st.lists(pods, max_size=3), st.lists(pods, max_size=1), surroundings, seconds, st.booleans())
def test_any_documents_have_a_report_or_none(
    job_document: Any, live: list[Any], gone: list[Any], seen: Surroundings, second: int, demanded: bool
) -> None:
    report = told(live, seen, of=job_document, gone=gone, second=second, demand=demanded)
    again = told(live, seen, of=job_document, gone=gone, second=second, demand=demanded)
    assert report == again
    if report is None:
        return
    assert line(report)
    assert report.remedy.strip()
    assert line(report).isprintable()
    assert table(report, moment(second))
    text = json.dumps(to_document(report), allow_nan=False)
    assert len(text) <= LONGEST
    assert from_document(json.loads(text)) is not None


@given(anything, st.lists(anything, max_size=3), st.lists(anything, max_size=2), st.floats())
def test_what_is_nothing_of_the_kind_is_no_reason_to_fail(
    job_document: Any, live: list[Any], around_it: list[Any], now: float
) -> None:
    seen = around(around_it, around_it, around_it, around_it, quotas=around_it, limits=around_it)
    report = diagnose(observe(job_document, live), demand_of(job_document), seen, now)
    assert report is None or report.cure is not Cure.NEVER or report.cause is Cause.NO_GPU_NODES


@given(st.lists(nodes, max_size=4), st.lists(tenants, max_size=4), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_listed_does_not_matter(seen: list[Any], held: list[Any], chance: Any) -> None:
    shuffled_events = [refusal(QUOTA), event(UNSCHEDULED, "TriggeredScaleUp", "x", source="cluster-autoscaler")]
    one = report_of([UNSCHEDULED], around(seen, held, shuffled_events))
    chance.shuffle(held)
    chance.shuffle(shuffled_events)
    other = report_of([UNSCHEDULED], around(seen, held, shuffled_events))
    assert (one.cause, one.cure, one.nodes, one.nearest) == (other.cause, other.cure, other.nodes, other.nearest)
    assert {holder.who for holder in one.holders} == {holder.who for holder in other.holders}


def test_nothing_is_told_of_a_job_that_was_never_seen_or_is_gone() -> None:
    seen = around([node()])
    assert diagnose(observe(None, [UNSCHEDULED]), None, seen, moment(60)) is None
    assert diagnose(observe(job(), [UNSCHEDULED], gone=True), None, seen, moment(60)) is None


def test_a_report_stays_the_same_while_nothing_changes() -> None:
    """A log says it once."""
    seen = around([node(gpus=1)], [tenant(deadline=600)])
    lines = {line(report_of([UNSCHEDULED], seen, second=second)) for second in (5, 60, 599, 3000)}
    assert len(lines) == 1


def test_what_was_worked_out_for_some_nodes_is_not_taken_for_others() -> None:
    full = around([node(gpus=1)], [tenant()])
    for _ in range(2):
        assert report_of([UNSCHEDULED], full).cause is Cause.GPUS_TAKEN
        freed = around([node(gpus=1)], [])
        assert report_of([UNSCHEDULED], freed).holders == ()
        tainted = around([node(taints=[DEDICATED])], [])
        assert report_of([UNSCHEDULED], tainted).cause is Cause.TAINT_NOT_TOLERATED
    assert report_of([UNSCHEDULED], full).words == TAKEN
