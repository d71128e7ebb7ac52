"""Every reason why a node can not take a pod, and thousands of nodes counted by the hardest of each."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.pending_world import DEDICATED, GPU, GPU_TAINT, node, tenant, waiting_pod

from gpu_training.core.fitting import NEAREST_FIRST, count_nodes, obstacles
from gpu_training.core.node_index import NodeIndex, NodeTable, index_of
from gpu_training.core.node_matching import holds, in_words
from gpu_training.core.node_usage import Usage
from gpu_training.core.pending_cause import Cause
from gpu_training.core.pod_demand import Demand, Requirement, demand_of
from gpu_training.core.surroundings import Node, Tenant
from gpu_training.core.surroundings_documents import node_of, tenant_of

pytestmark = pytest.mark.core

RANK = {cause: rank for rank, cause in enumerate(NEAREST_FIRST)}


def demand(gpus: int = 1, **spec: Any) -> Demand:
    return demand_of(waiting_pod(gpus=gpus, spec=spec))


def free_on(each: Node, tenants: tuple[Tenant, ...] = ()) -> dict[str, Fraction]:
    left = dict(each.allocatable)
    for held in tenants:
        if held.node == each.name:
            for name, amount in held.requests.items():
                left[name] = left.get(name, Fraction(0)) - amount
    return left


def causes(document: Any, wanted: Demand, tenants: tuple[Tenant, ...] = ()) -> list[Cause]:
    each = node_of(document)
    return [obstacle.cause for obstacle in obstacles(each, free_on(each, tenants), wanted)]


def test_all_obstacles_are_told_and_the_hardest_first() -> None:
    """The scheduler tells of such a node that it has a taint, and no more."""
    busy = node(gpus=1, taints=[GPU_TAINT, DEDICATED], memory="1Gi", cordoned=True, labels={"pool": "b"})
    assert causes(busy, demand(2, nodeSelector={"pool": "a"})) == [
        Cause.LABEL_NOT_MATCHED,
        Cause.TOO_LITTLE_CPU_OR_MEMORY,
        Cause.TOO_FEW_GPUS,
        Cause.TAINT_NOT_TOLERATED,
        Cause.NODES_CORDONED,
    ]
    assert causes(node(), demand()) == []


@pytest.mark.parametrize(
    ("taint", "toleration", "tolerated"),
    [
        (DEDICATED, {"key": "dedicated", "operator": "Exists"}, True),
        (DEDICATED, {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}, True),
        (DEDICATED, {"key": "dedicated", "value": "ingest"}, True),
        (DEDICATED, {"key": "dedicated", "operator": "Equal", "value": "ingest", "effect": "NoSchedule"}, True),
        (DEDICATED, {"operator": "Exists"}, True),
        (DEDICATED, {"key": "dedicated", "value": "other"}, False),
        (DEDICATED, {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        (DEDICATED, {"key": "other", "operator": "Exists"}, False),
        (DEDICATED, {"key": "dedicated", "operator": "Never"}, False),
        ({**DEDICATED, "effect": "NoExecute"}, {"key": "x"}, False),
        ({**DEDICATED, "effect": "PreferNoSchedule"}, {"key": "x"}, True),
        (
            {"key": "sla", "value": "950", "effect": "NoSchedule"},
            {"key": "sla", "operator": "Gt", "value": "900"},
            True,
        ),
        (
            {"key": "sla", "value": "850", "effect": "NoSchedule"},
            {"key": "sla", "operator": "Gt", "value": "900"},
            False,
        ),
        (
            {"key": "sla", "value": "850", "effect": "NoSchedule"},
            {"key": "sla", "operator": "Lt", "value": "900"},
            True,
        ),
    ],
)
def test_taints_are_tolerated_as_the_scheduler_does(taint: Any, toleration: Any, tolerated: bool) -> None:
    found = causes(node(taints=[taint]), demand(tolerations=[toleration]))
    assert found == ([] if tolerated else [Cause.TAINT_NOT_TOLERATED])


@pytest.mark.parametrize(
    ("operator", "values", "matching", "other"),
    [
        ("In", ("a", "b"), "a", "c"),
        ("NotIn", ("a", "b"), "c", "a"),
        ("NotIn", ("a",), None, "a"),
        ("Exists", (), "a", None),
        ("DoesNotExist", (), None, "a"),
        ("Gt", ("5",), "6", "5"),
        ("Lt", ("5",), "4", "5"),
        ("Gt", ("5",), "10", "x"),
        ("Gt", ("5",), "10", None),
    ],
)
def test_labels_match_as_for_the_scheduler(operator: str, values: Any, matching: str | None, other: str | None) -> None:
    requirement = Requirement(key="k", operator=operator, values=values)
    assert holds(requirement, matching)
    assert not holds(requirement, other)


@pytest.mark.parametrize("requirement", [("Near", ("a",)), ("Gt", ("x",)), ("Gt", ()), ("In", ())])
def test_a_requirement_that_is_none_is_met_by_nothing(requirement: Any) -> None:
    assert not holds(Requirement(key="k", operator=requirement[0], values=requirement[1]), "7")


@pytest.mark.parametrize(
    ("operator", "values", "words"),
    [
        ("In", ("a",), "k=a"),
        ("In", ("a", "b"), "k in (a, b)"),
        ("In", ("a", "b", "c", "d", "e"), "k in (a, b, c, d, …)"),
        ("NotIn", ("a",), "k not in (a)"),
        ("Exists", (), "k is there"),
        ("DoesNotExist", (), "k is not there"),
        ("Gt", ("5",), "k above 5"),
        ("Lt", ("5",), "k below 5"),
        ("Near", ("a",), "k Near (a)"),
    ],
)
def test_a_requirement_is_told_in_words(operator: str, values: tuple[str, ...], words: str) -> None:
    assert in_words(Requirement(key="k", operator=operator, values=values)) == words


def test_any_number_of_different_demands_is_answered() -> None:
    """What is kept of earlier ones is bounded."""
    index = index_of((node_of(node(labels={"pool7": "a"})),), ())
    for number in (*range(50), 7):
        kinds = count_nodes(index, demand(nodeSelector={f"pool{number}": "a"})).kinds
        assert [kind.obstacles == () for kind in kinds] == [number == 7]


def affinity(*terms: Any) -> Any:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def test_the_terms_of_an_affinity_are_alternatives() -> None:
    def zone(name: str) -> Any:
        return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [name]}]}

    here = node(labels={"zone": "a"})
    assert causes(here, demand(**affinity(zone("b"), zone("a")))) == []
    assert causes(here, demand(**affinity(zone("b"), zone("c")))) == [Cause.LABEL_NOT_MATCHED]
    assert causes(here, demand(**affinity({}))) == [Cause.LABEL_NOT_MATCHED]


def test_a_node_that_is_left_out_by_its_name_is_told_so() -> None:
    avoided = affinity({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["g5-1"]}]})
    index = index_of((node_of(node("g5-1")), node_of(node("g5-2"))), ())
    survey = count_nodes(index, demand(**avoided))
    assert [(kind.places, len(kind.obstacles)) for kind in survey.kinds] == [((1,), 0), ((0,), 1)]
    assert survey.kinds[1].obstacles[0].by_name


def test_a_cordon_and_lost_readiness_can_be_tolerated() -> None:
    key = "node.kubernetes.io/unschedulable"
    assert causes(node(cordoned=True), demand(tolerations=[{"key": key, "operator": "Exists"}])) == []
    lost = node(ready="False", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    everything = {"operator": "Exists"}
    assert causes(lost, demand(tolerations=[everything])) == []
    assert causes(lost, demand()) == [Cause.NODES_NOT_READY]


def test_nodes_that_do_not_say_how_many_pods_they_take_take_any_number() -> None:
    silent = node()
    del silent["status"]["allocatable"]["pods"]
    assert causes(silent, demand()) == []
    full = (tenant_of(tenant(gpus=0)),)
    assert causes(node(pods="1"), demand(), tuple(each for each in full if each)) == [Cause.CPU_OR_MEMORY_TAKEN]


labels = st.dictionaries(st.sampled_from(["pool", "zone"]), st.sampled_from(["a", "b"]), max_size=2)
taints = st.lists(st.sampled_from([DEDICATED, GPU_TAINT, {**DEDICATED, "effect": "NoExecute"}]), max_size=2)
nodes = st.builds(
    node,
    st.sampled_from([f"n{number}" for number in range(6)]),
    gpus=st.integers(0, 4),
    capacity=st.none() | st.integers(0, 4),
    labels=labels,
    taints=taints,
    ready=st.sampled_from(["True", "False", "Unknown"]),
    cordoned=st.booleans(),
    pressure=st.sampled_from(["", "DiskPressure", "MemoryPressure"]),
    memory=st.sampled_from(["1Gi", "1.5Gi", "64Gi"]),
    pods=st.sampled_from(["0", "1", "110"]),
)
tenants = st.builds(
    tenant,
    st.text("xyz", min_size=1, max_size=3),
    st.sampled_from([f"n{number}" for number in range(7)]),
    gpus=st.integers(0, 4),
    memory=st.sampled_from(["1Gi", "100m", "63Gi"]),
)
demands = st.builds(
    demand,
    st.integers(1, 4),
    nodeSelector=labels,
    tolerations=st.lists(st.sampled_from([{"operator": "Exists"}, {"key": GPU, "operator": "Exists"}]), max_size=1),
)
scenes = st.tuples(
    st.lists(nodes, max_size=6, unique_by=lambda each: each["metadata"]["name"]), st.lists(tenants), demands
)


def values(scene: Any) -> tuple[tuple[Node, ...], tuple[Tenant, ...], Demand]:
    documents, held, wanted = scene
    kept = tuple(each for each in map(tenant_of, held) if each is not None)
    return tuple(map(node_of, documents)), kept, wanted


@given(scenes)
def test_counting_many_nodes_is_looking_at_each(scene: Any) -> None:
    seen, held, wanted = values(scene)
    survey = count_nodes(index_of(seen, held), wanted)
    by_place = {place: kind.obstacles for kind in survey.kinds for place in kind.places}
    assert by_place == {place: obstacles(each, free_on(each, held), wanted) for place, each in enumerate(seen)}
    hardest = Counter(found[0].cause for found in by_place.values() if found)
    told: Counter[Any] = Counter()
    for count in survey.counts:
        told[count.cause] += count.count
    assert told == hardest
    ranks = [RANK[kind.hardest.cause] if kind.hardest else -1 for kind in survey.kinds]
    assert ranks == sorted(ranks)
    assert count_nodes(NodeIndex(NodeTable(seen), Usage(held)), wanted).kinds == survey.kinds


@given(scenes, st.sampled_from([GPU, "memory", "cpu", "pods"]), st.fractions(min_value=0, max_value=2**37))
def test_more_room_only_takes_obstacles_away(scene: Any, resource: str, more: Fraction) -> None:
    seen, held, wanted = values(scene)
    for each in seen:
        free = free_on(each, held)
        before = obstacles(each, free, wanted)
        after = obstacles(each, {**free, resource: free.get(resource, Fraction(0)) + more}, wanted)
        assert set(after) <= set(before)


@given(scenes, st.integers(1, 8))
def test_a_larger_node_is_never_further_from_taking_the_pod(scene: Any, more: int) -> None:
    documents, held, wanted = scene
    larger = [{**each, "status": {**each["status"]}} for each in documents]
    for each in larger:
        for side in ("allocatable", "capacity"):
            amounts = each["status"][side]
            each["status"][side] = {**amounts, GPU: str(int(amounts.get(GPU, "0")) + more)}
    for small, large in zip(*(values((which, held, wanted))[0] for which in (documents, larger)), strict=True):
        kept = values(scene)[1]
        before = [RANK[o.cause] for o in obstacles(small, free_on(small, kept), wanted)]
        after = [RANK[o.cause] for o in obstacles(large, free_on(large, kept), wanted)]
        assert len(after) <= len(before)
        assert max(after, default=-1) <= max(before, default=-1)
