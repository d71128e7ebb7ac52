"""What has ended stays as it ended, whatever Kubernetes takes away or says later about the same Job."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.kubernetes_documents import (
    TRAINED,
    Document,
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
)

from gpu_training.core.decide import Outcome, Policy, decide
from gpu_training.core.observation import observe
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

JOBS = [
    job(),
    job(spec={"parallelism": 3, "completions": 3}),
    job(condition("SuccessCriteriaMet")),
    job(condition("FailureTarget", reason="DeadlineExceeded")),
    complete(),
    failed(),
    failed("DeadlineExceeded"),
    failed(
        "PodFailurePolicy", "Container training for pod x failed with exit code 83 matching FailJob rule at index 1"
    ),
]
SHAPES: list[dict[str, Any]] = [
    succeeded_pod(),
    succeeded_pod(""),
    succeeded_pod(TRAINED.replace("m-1", "m-2"), index=1),
    succeeded_pod("", conditions=[disruption(9)]),
    failed_pod(1),
    failed_pod(83),
    failed_pod(137, reason="OOMKilled"),
    pod("Failed", status={"reason": "OutOfcpu"}),
    failed_pod(143, conditions=[disruption(9)]),
    pod("Running", container(running())),
    pod("Pending", scheduled=None),
]


def _named(shapes: list[Document]) -> list[Document]:
    return [
        {**shape, "metadata": {**shape["metadata"], "name": f"pod-{n}", "uid": f"uid-{n}"}}
        for n, shape in enumerate(shapes)
    ]


pods = st.lists(st.sampled_from(SHAPES), max_size=4).map(_named)
jobs = st.sampled_from(JOBS)
policies = st.sampled_from([Policy(rules=built_in_rules()), Policy(rules=built_in_rules(), result_required=False)])
later = st.floats(min_value=0, max_value=1e7)


def facts(decision: object) -> object:
    """Give all that must not change: not the GPU-seconds of what nobody saw to end."""
    assert isinstance(decision, Outcome)
    verdict = decision.verdict
    said = None if verdict is None else (verdict.category, verdict.owner, verdict.action)
    return decision.kind, said, decision.result


@given(jobs, pods, policies, st.booleans(), later, st.data())
def test_an_end_is_not_taken_back(
    document: Document, live: list[Document], policy: Policy, gone: bool, seconds: float, data: st.DataObject
) -> None:
    first = decide(observe(document, live, gone=gone), policy, moment(20))
    if not isinstance(first, Outcome):
        return
    vanished = data.draw(st.sets(st.integers(0, 3)))
    still = [entry for n, entry in enumerate(live) if n not in vanished]
    gone_pods = [entry for n, entry in enumerate(live) if n in vanished]
    # Pods go, the Job goes, clocks go on, a taint marks what had ended long before.
    for entry in still:
        if entry["status"]["phase"] in ("Succeeded", "Failed"):
            entry["status"] = {**entry["status"], "conditions": [*entry["status"]["conditions"], disruption(50)]}
    deleted = {**document, "metadata": {**document["metadata"], "deletionTimestamp": "2026-11-30T20:00:00Z"}}
    for job_document, is_gone in ((document, gone), (deleted, gone), (deleted, True)):
        again = decide(observe(job_document, still, gone_pods=gone_pods, gone=is_gone), policy, moment(20) + seconds)
        assert facts(again) == facts(first)


@given(jobs, pods, policies, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_in_which_documents_come_decides_nothing(
    document: Document, live: list[Document], policy: Policy, gone: bool, random: Any
) -> None:
    shuffled = list(live)
    random.shuffle(shuffled)
    assert decide(observe(document, shuffled, gone=gone), policy, moment(20)) == decide(
        observe(document, live, gone=gone), policy, moment(20)
    )


@given(pods, policies, later)
def test_only_a_true_condition_or_a_confirmed_absence_ends_a_training(
    live: list[Document], policy: Policy, seconds: float
) -> None:
    """Not a count of failed pods, not the age of anything."""
    waiting = job(
        condition("Complete", status="False"), condition("Failed", status="Unknown"), status={"failed": 99, "active": 0}
    )
    assert not isinstance(decide(observe(waiting, live), policy, moment(0) + seconds), Outcome)
    assert not isinstance(decide(observe(None, live), policy, moment(0) + seconds), Outcome)
