"""What a pod demands of a node is what the scheduler counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything, damaged
from tests.unit.core.pending_world import GPU, waiting_pod
from tests.unit.core.specs import SETTINGS, identity, spec

from gpu_training.core.manifest import build_job
from gpu_training.core.pod_demand import Demand, Requirement, Term, Tolerated, demand_of, requests_of
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

GI = 2**30


def container(cpu: str = "", memory: str = "", gpus: int = 0, **more: Any) -> dict[str, Any]:
    asked = {"cpu": cpu, "memory": memory}
    limits = {GPU: gpus} if gpus else {}
    return {"resources": {"requests": {k: v for k, v in asked.items() if v}, "limits": limits}, **more}


def sidecar(**more: Any) -> dict[str, Any]:
    return container(**more) | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod", "cpu", "memory", "gpus"),
    [
        ({"containers": [container("1", "1Gi", 2), container("500m", "1Gi")]}, "1.5", 2, 2),
        ({"initContainers": [container("4", "512Mi")], "containers": [container("1", "1Gi", 1)]}, "4", 1, 1),
        ({"initContainers": [sidecar(cpu="1")], "containers": [container("1", "1Gi", 1)]}, "2", 1, 1),
        ({"initContainers": [sidecar(cpu="1"), container("4")], "containers": [container("1", "1Gi")]}, "5", 1, 0),
        ({"initContainers": [container("4"), sidecar(cpu="1")], "containers": [container("1", "1Gi")]}, "4", 1, 0),
        ({"containers": [container("1", "1Gi")], "overhead": {"cpu": "250m"}}, "1.25", 1, 0),
        ({"containers": [container("1", "1Gi")], "resources": {"requests": {"cpu": "8"}}}, "8", 1, 0),
        ({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi", GPU: "1"}}}]}, "2", 1, 1),
        (
            {"containers": [{"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "1Gi"}}}]},
            "1",
            1,
            0,
        ),
    ],
)
def test_requests_are_counted_as_the_scheduler_does(pod: Any, cpu: str, memory: int, gpus: int) -> None:
    counted = requests_of(pod)
    assert counted["cpu"] == Fraction(cpu)
    assert counted["memory"] == memory * GI
    assert counted.get(GPU, 0) == gpus
    assert counted["pods"] == 1


def test_a_jobs_template_and_its_pod_demand_the_same() -> None:
    wanted = spec(
        node_selector={"pool": "a"}, tolerations=[{"key": "spot"}], resources={"limits": {GPU: 2, "memory": "8Gi"}}
    )
    job = build_job({}, wanted, identity(wanted), SETTINGS, built_in_rules())
    template = job["spec"]["template"]
    demand = demand_of(job)
    assert demand == demand_of(template)
    assert (demand.gpus, demand.selector, demand.requests["memory"]) == (2, {"pool": "a"}, 8 * GI)
    assert Tolerated(key="spot", operator="Exists", effect="NoSchedule") in demand.tolerations
    assert demand.image == wanted.image


def test_all_that_keeps_a_pod_off_nodes_is_read() -> None:
    term = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["bad"]}],
    }
    required = {"nodeSelectorTerms": [term, {}]}
    demand = demand_of(
        waiting_pod(
            spec={
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
                "schedulingGates": [{"name": "example.com/budget"}],
                "schedulerName": "other",
                "priority": 7,
                "priorityClassName": "nightly",
                "preemptionPolicy": "Never",
            }
        )
    )
    assert demand.terms == (
        Term(
            labels=(Requirement(key="zone", operator="In", values=("a", "b")),),
            fields=(Requirement(key="metadata.name", operator="NotIn", values=("bad",)),),
        ),
    )
    assert (demand.gates, demand.scheduler) == (("example.com/budget",), "other")
    assert (demand.priority, demand.priority_class, demand.preempts) == (7, "nightly", False)


def test_a_pod_that_asks_for_nothing_demands_nothing_but_its_place() -> None:
    assert demand_of({}) == Demand(requests={"pods": Fraction(1)})
    assert demand_of({}).scheduler == "default-scheduler"


@given(damaged(waiting_pod(spec={"nodeSelector": {"a": "b"}, "initContainers": [container("1")]})) | anything)
def test_any_document_has_a_demand(document: Any) -> None:
    demand = demand_of(document)
    assert demand.gpus >= 0
    assert all(amount >= 0 for amount in demand.requests.values())
