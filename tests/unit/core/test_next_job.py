"""How the next Job differs: more memory, other nodes, on demand at last, and no more than what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.ledgers import BUDGET, attempt, ended_job, failed_attempts, ledger_of
from tests.unit.core.specs import spec

from gpu_training.core.budget import Budget
from gpu_training.core.ledger import Ledger
from gpu_training.core.next_job import NextJob, next_job
from gpu_training.core.placement import Toleration
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.spec import MAXIMUM_DEADLINE_S
from gpu_training.core.verdict import Action

pytestmark = pytest.mark.core

SPOT = {
    "node_selector": {"capacity": "spot"},
    "tolerations": [{"key": "spot"}],
    "spot_fallback": {"node_selector": {"capacity": "on-demand"}, "tolerations": [{"key": "dear", "value": "yes"}]},
}
NOW = 1000.0


def following(*attempts: Any, budget: Budget = BUDGET, **changes: Any) -> NextJob:
    return next_job(ledger_of(ended_job(1, attempts=tuple(attempts))), spec(**changes), budget, NOW)


def test_the_first_job_is_as_the_spec_says() -> None:
    of = spec(**SPOT)
    first = next_job(ledger_of(), of, BUDGET, NOW)
    assert first.spec == of
    assert (first.avoid_nodes, first.on_demand) == ((), False)
    assert (first.allowance.failures, first.allowance.disruptions, first.work_seconds) == (1, 2, 1800)


def test_a_job_leaves_the_last_attempt_to_the_one_of_the_fallback_and_spends_all_without_one() -> None:
    with_fallback = spec(**SPOT)
    without = replace(with_fallback, spot_fallback=None)
    firsts = [next_job(ledger_of(), each, BUDGET, NOW).allowance.failures for each in (with_fallback, without)]
    last = following(*failed_attempts(2), **SPOT)
    assert firsts == [1, 2]
    assert (last.on_demand, last.allowance.failures) == (True, 0)


# Memory.


@pytest.mark.parametrize(
    ("steps", "growth", "memory"),
    [
        (0, {}, "2Gi"),
        (1, {}, "3072Mi"),
        (2, {}, "4096Mi"),
        (9, {}, "4096Mi"),
        (1, {"factor": 2, "maximum": "8Gi"}, "4096Mi"),
        (2, {"factor": 2, "maximum": "8Gi"}, "8Gi"),
        (3, {"factor": 2, "maximum": "8Gi"}, "8Gi"),
        (1, {"maximum": "2Gi"}, "2Gi"),
    ],
)
def test_memory_grows_by_each_attempt_that_ran_out_of_it_up_to_its_cap(
    steps: int, growth: dict[str, Any], memory: str
) -> None:
    made = following(*failed_attempts(steps, Action.RETRY_LARGER), memory_growth=growth).spec
    assert made.resources.limits["memory"] == memory
    assert made.resources.requests["memory"] == memory
    assert made.resources.limits["nvidia.com/gpu"] == "1"


def test_other_failures_make_no_memory_grow() -> None:
    made = following(*failed_attempts(2), attempt("w", start=90, end=99, action=Action.WAIT)).spec
    assert made.resources.limits["memory"] == "2Gi"


def test_a_request_below_the_limit_stays_what_it_was() -> None:
    resources = {"requests": {"memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1, "memory": "2Gi"}}
    made = following(*failed_attempts(1, Action.RETRY_LARGER), resources=resources).spec
    assert (made.resources.requests["memory"], made.resources.limits["memory"]) == ("1Gi", "3072Mi")


def test_memory_stays_grown_over_a_renewal_and_not_over_generations() -> None:
    larger = ended_job(1, attempts=failed_attempts(1, Action.RETRY_LARGER))

    def memory(ledger: Ledger) -> str:
        return next_job(ledger, spec(), BUDGET, NOW).spec.resources.limits["memory"]

    assert memory(ledger_of(larger, period=2)) == "3072Mi"
    assert memory(ledger_of(larger, period=2, generation=2)) == "2Gi"


@given(st.integers(0, 12), st.integers(2, 64), st.sampled_from([1.5, 2, "1.25", 4]))
def test_memory_never_shrinks_and_never_passes_the_cap(steps: int, cap: int, factor: Any) -> None:
    growth = {"factor": factor, "maximum": f"{cap}Gi"}
    amounts = [
        parse_quantity(
            following(*failed_attempts(n, Action.RETRY_LARGER), memory_growth=growth).spec.resources.limits["memory"]
        )
        for n in (steps, steps + 1)
    ]
    assert amounts[0] is not None
    assert amounts[1] is not None
    assert 2 * 2**30 <= amounts[0] <= amounts[1] <= cap * 2**30


# Nodes.


def test_nodes_that_failed_are_avoided_and_each_is_named_once() -> None:
    attempts = [
        attempt("a", action=Action.RETRY_ELSEWHERE, node="gpu-9"),
        attempt("b", action=Action.RETRY_ELSEWHERE, node="gpu-2"),
        attempt("c", action=Action.RETRY_ELSEWHERE, node="gpu-9"),
        attempt("d", action=Action.RETRY, node="gpu-3"),
        attempt("e", action=Action.RETRY_ELSEWHERE, start=None),
        attempt("f", end=None, node="gpu-4"),
    ]
    assert following(*attempts).avoid_nodes == ("gpu-2", "gpu-9")


def test_a_person_who_renews_the_budget_has_looked_at_the_nodes() -> None:
    ledger = ledger_of(ended_job(1, attempts=failed_attempts(1, Action.RETRY_ELSEWHERE)), period=2)
    assert next_job(ledger, spec(), BUDGET, NOW).avoid_nodes == ()


# On demand at last.


@pytest.mark.parametrize(
    ("failures", "disruptions", "on_demand"), [(0, 0, False), (1, 0, False), (2, 0, True), (0, 2, False), (0, 3, True)]
)
def test_the_last_attempt_goes_where_the_fallback_says(failures: int, disruptions: int, on_demand: bool) -> None:
    disrupted = tuple(replace(each, uid=f"d{n}") for n, each in enumerate(failed_attempts(disruptions, Action.WAIT)))
    made = following(*failed_attempts(failures), *disrupted, **SPOT)
    assert made.on_demand is on_demand
    if on_demand:
        assert made.spec.node_selector == {"capacity": "on-demand"}
        assert made.spec.tolerations == (Toleration(key="dear", value="yes", effect="NoSchedule"),)
    else:
        assert made.spec.node_selector == {"capacity": "spot"}


def test_without_a_fallback_the_last_attempt_goes_where_all_go() -> None:
    made = following(*failed_attempts(2), node_selector={"capacity": "spot"})
    assert (made.on_demand, made.spec.node_selector) == (False, {"capacity": "spot"})


# What is left.


@pytest.mark.parametrize(
    ("wall_seconds", "deadline"), [(1800, 1700), (2000, 1800), (9999, 1800), (150, 50), (101, 5), (50, 5)]
)
def test_a_job_may_take_what_is_left_of_the_wall_time_and_never_nothing(wall_seconds: int, deadline: int) -> None:
    assert following(budget=replace(BUDGET, wall_seconds=wall_seconds)).work_seconds == deadline


@pytest.mark.parametrize(
    ("queue_seconds", "deadline"), [(600, 2400), (0, MAXIMUM_DEADLINE_S), (MAXIMUM_DEADLINE_S, MAXIMUM_DEADLINE_S)]
)
def test_the_jobs_own_deadline_has_room_for_the_queue(queue_seconds: int, deadline: int) -> None:
    made = following(budget=replace(BUDGET, wall_seconds=1900), clocks={"queue_seconds": queue_seconds})
    assert made.outer_deadline_seconds == deadline


def test_the_record_says_what_the_job_holds_and_may_spend() -> None:
    made = following(*failed_attempts(2), **SPOT, resources={"limits": {"nvidia.com/gpu": 2, "memory": "4Gi"}})
    record = made.record(number=7, generation=3, period=2, name="m-g3-7", pods=4, now=NOW)
    assert (record.number, record.generation, record.period, record.name) == (7, 3, 2, "m-g3-7")
    assert (record.uid, record.created_at, record.seen_until, record.ended_at) == (None, NOW, NOW, None)
    assert (record.gpus, record.memory, record.on_demand) == (8, "4Gi", True)
    assert record.allowance == made.allowance
    assert record.allowance.failures == 0
