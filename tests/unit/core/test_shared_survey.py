"""Trainings that ask for the same share one look at the nodes, and what is made of it; others do not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.pending_world import GPU_TAINT, node, tenant, waiting_pod

from gpu_training.core.fitting import Survey, count_nodes
from gpu_training.core.nearest_fit import holders_of, nearest_fit
from gpu_training.core.node_index import index_of
from gpu_training.core.node_sentences import summary_of
from gpu_training.core.pod_demand import Demand, demand_of
from gpu_training.core.sameness import Memo
from gpu_training.core.surroundings import Node, Tenant
from gpu_training.core.surroundings_documents import node_of, tenant_of

pytestmark = pytest.mark.core

NODES: tuple[Node, ...] = tuple(
    node_of(node(f"n-{number}", gpus=2, labels={"pool": "ab"[number % 2]})) for number in range(6)
)


def held(*documents: Any) -> tuple[Tenant, ...]:
    return tuple(each for each in map(tenant_of, documents) if each is not None)


TENANTS = held(*(tenant(f"holder-{number}", f"n-{number}", gpus=2) for number in range(6)))


def demand(gpus: int = 1, **spec: Any) -> Demand:
    return demand_of(waiting_pod(gpus=gpus, spec=spec))


def survey(wanted: Demand, **more: Any) -> Survey:
    return count_nodes(index_of(NODES, TENANTS), wanted, **more)


def test_hundreds_that_ask_for_the_same_share_one_survey() -> None:
    first = survey(demand())
    assert all(survey(demand(), own={("trainings", f"pod-{number}")}) is first for number in range(500))


def test_what_does_not_decide_where_a_pod_fits_makes_no_other_survey() -> None:
    assert survey(demand(volumes=[{"persistentVolumeClaim": {"claimName": "data"}}])) is survey(demand())


@pytest.mark.parametrize(
    "other",
    [
        demand(2),
        demand(nodeSelector={"pool": "a"}),
        demand(tolerations=[{"key": GPU_TAINT["key"], "operator": "Exists"}]),
        demand(priority=7),
        demand(overhead={"cpu": "1"}),
        demand(
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n-1"]}]}
                        ]
                    }
                }
            }
        ),
    ],
    ids=["gpus", "selector", "toleration", "priority", "overhead", "affinity"],
)
def test_another_demand_is_another_survey(other: Demand) -> None:
    assert survey(other) is not survey(demand())


def test_whether_all_tenants_are_seen_makes_another_survey() -> None:
    assert survey(demand()).all_seen
    assert not survey(demand(), all_seen=False).all_seen


def test_a_survey_is_not_kept_when_nodes_or_tenants_change() -> None:
    first = survey(demand())
    fewer = count_nodes(index_of(NODES[1:], TENANTS), demand())
    freer = count_nodes(index_of(NODES, TENANTS[1:]), demand())
    assert [sum(len(kind.places) for kind in each.kinds) for each in (first, fewer, freer)] == [6, 5, 6]
    assert freer.kinds[0].obstacles == ()


def test_a_node_that_is_meant_for_the_training_s_own_pod_is_free_to_it_alone() -> None:
    document = tenant("mine", "", gpus=2)
    document["spec"].pop("nodeName", None)
    document["status"] = {"phase": "Pending", "nominatedNodeName": "n-0"}
    index = index_of(NODES[:1], held(document))
    mine = count_nodes(index, demand(2), {(document["metadata"]["namespace"], "mine")})
    others = count_nodes(index, demand(2), {(document["metadata"]["namespace"], "another")})
    assert mine.kinds[0].obstacles == ()
    assert others.kinds[0].obstacles != ()


def test_what_is_made_of_a_survey_is_made_once() -> None:
    seen, wanted = survey(demand()), demand()
    assert seen.counts is seen.counts
    assert nearest_fit(seen, wanted) is nearest_fit(seen, wanted)
    nearest = seen.kinds[0]
    assert nearest.hardest is not None
    once = summary_of(nearest, nearest.hardest, seen, wanted)
    assert summary_of(nearest, nearest.hardest, seen, wanted) is once
    holders = holders_of(seen, seen.kinds, "trainings", {("trainings", "pod-1")})
    assert len(holders) == 6
    assert holders_of(seen, iter(seen.kinds), "trainings", {("trainings", "pod-2")}) is holders


def test_holders_are_told_as_the_training_sees_them() -> None:
    seen = survey(demand())
    there = TENANTS[0].namespace
    strangers = holders_of(seen, seen.kinds, "elsewhere", ())
    assert all(f"in namespace {there}" in each.who for each in strangers)
    assert not any("in namespace" in each.who for each in holders_of(seen, seen.kinds, there, ()))
    assert len(holders_of(seen, seen.kinds, there, {(there, "holder-3")})) == 5
    assert len(holders_of(seen, seen.kinds[:0], there, ())) == 0


def test_a_memo_keeps_so_much_and_puts_out_what_was_kept_first() -> None:
    memo, made = Memo(2), list[int]()

    def make(number: int) -> int:
        made.append(number)
        return number

    for number in (1, 2, 1, 2, 3, 2, 3, 1):
        assert memo.once(number, lambda number=number: make(number)) == number  # type: ignore[misc]
    assert made == [1, 2, 3, 1]
