"""What a ledger answers: which Job lives, what was spent, what the next Job may spend; and that it stays small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.ledgers import (
    BUDGET,
    attempt,
    ended_job,
    failed_attempts,
    ledger_job,
    ledger_of,
    ledgers,
    trained,
)

from gpu_training.core.budget import Budget
from gpu_training.core.ledger import CLAIMS_KEPT, JOBS_KEPT, Claim, Ending, LedgerJob, attempts_in
from gpu_training.core.ledger_document import to_text
from gpu_training.core.spending import Spending, allowance, spending
from gpu_training.core.verdict import Action, Category

pytestmark = pytest.mark.core


def test_the_job_that_lives_is_the_one_without_an_end() -> None:
    assert ledger_of().open_job is None
    assert ledger_of(ended_job(1)).open_job is None
    assert ledger_of(ended_job(1), ledger_job(2)).open_job == ledger_job(2)
    assert ledger_of(ended_job(1), ledger_job(2, uid=None)).open_job == ledger_job(2, uid=None)


def test_a_jobs_newest_record_takes_the_place_of_the_one_before() -> None:
    ledger = ledger_of(ledger_job(1), next_number=9).with_job(ledger_job(3)).with_job(ended_job(1))
    assert ledger.jobs == (ended_job(1), ledger_job(3))
    assert (ledger.job(3), ledger.job(2)) == (ledger_job(3), None)


def test_what_a_generation_came_to_is_told_once() -> None:
    ledger = ledger_of().with_trained(trained(1)).with_trained(trained(2)).with_trained(trained(3, 2))
    assert ledger.trained == (trained(1), trained(3, 2))
    assert (ledger.trained_in(1), ledger.trained_in(3)) == (trained(1), None)


def test_a_later_claim_of_a_task_takes_the_place_of_the_earlier() -> None:
    one, other = (Claim(task="t", max_tries=n, generation=1, number=n, at=0.0) for n in (1, 2))
    assert ledger_of().with_claim(one).with_claim(other).claims == (other,)


# What is spent.

_ADMISSION = Category.ADMISSION_FAILED
_KILL = {"action": Action.RETRY, "category": Category.KILLED}

ROWS: list[tuple[str, tuple[Any, ...], Ending | None, int, int]] = [
    ("nothing happened", (), None, 0, 0),
    ("it runs", (attempt(end=None),), None, 0, 0),
    ("a success", (attempt(),), Ending.SUCCEEDED, 0, 0),
    ("its own failure", (attempt(action=Action.RETRY),), Ending.FAILED, 1, 0),
    ("a final failure", (attempt(action=Action.FAIL),), Ending.FAILED, 1, 0),
    ("out of memory", (attempt(action=Action.RETRY_LARGER),), Ending.FAILED, 1, 0),
    ("a bad GPU", (attempt(action=Action.RETRY_ELSEWHERE),), Ending.FAILED, 1, 0),
    ("a reclaim", (attempt(action=Action.WAIT),), None, 0, 1),
    ("refused at admission", (attempt(start=None, action=Action.WAIT, category=_ADMISSION),), None, 0, 1),
    ("killed by somebody", (attempt(**_KILL),), Ending.FAILED, 1, 0),
    ("killed since we deleted the Job", (attempt(**_KILL),), Ending.DELETED, 0, 0),
    ("killed since somebody deleted the Job", (attempt(**_KILL),), Ending.LOST, 0, 0),
    ("failed, and then the Job was deleted", (attempt(action=Action.RETRY),), Ending.DELETED, 1, 0),
    # A gang: Kubernetes ends the others of a Job that has failed.
    ("a rank fails, the others are killed", (attempt("a", end=20, action=Action.RETRY),
     attempt("b", end=21, **_KILL), attempt("c", end=20, **_KILL)), Ending.FAILED, 1, 0),
    ("killed one behind the other", (attempt("a", end=20, **_KILL), attempt("b", start=30, end=40, **_KILL)),
     Ending.FAILED, 2, 0),
    ("killed before another failed", (attempt("a", end=15, **_KILL), attempt("b", end=40, action=Action.RETRY)),
     Ending.FAILED, 2, 0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attempts", "ending", "failures", "disruptions"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_attempts_are_spent_by_what_failed_by_itself_alone(
    attempts: tuple[Any, ...], ending: Ending | None, failures: int, disruptions: int
) -> None:
    job = ledger_job(1, attempts=attempts, ending=ending, ended_at=None if ending is None else 100.0)
    assert (job.failures, job.disruptions) == (failures, disruptions)


def test_gpu_seconds_are_those_of_the_attempts_and_those_that_nobody_saw() -> None:
    assert ledger_job(1, attempts=failed_attempts(2), unseen_gpu_seconds=7.5).gpu_seconds == 27.5


@pytest.mark.parametrize(
    ("changes", "now", "seconds"),
    [
        ({}, 50.0, 50.0),
        ({"created_at": 40.0}, 50.0, 10.0),
        ({"ended_at": 30.0}, 50.0, 30.0),
        ({"uid": None}, 50.0, 0.0),
        # A clock that jumps.
        ({"created_at": 60.0}, 50.0, 0.0),
        # The queue is no part of it.
        ({"waited": ((5.0, 25.0), (30.0, 40.0))}, 50.0, 20.0),
        ({"waited": ((40.0, 60.0),)}, 50.0, 40.0),
        ({"waited": ((40.0, 60.0),), "ended_at": 45.0}, 50.0, 40.0),
    ],
)
def test_a_jobs_wall_time_is_its_life_outside_of_the_queue(changes: dict[str, Any], now: float, seconds: float) -> None:
    assert ledger_job(1, **changes).wall_seconds(now) == seconds


def test_only_jobs_of_the_current_period_spend_it() -> None:
    ledger = ledger_of(
        ended_job(1, attempts=failed_attempts(2)), ended_job(2, period=2, attempts=failed_attempts(1)), period=2
    )
    assert spending(ledger.current_jobs(), 0.0) == Spending(
        failures=1, disruptions=0, gpu_seconds=10.0, wall_seconds=100.0
    )


@pytest.mark.parametrize(
    ("spent", "backoff_limit", "failures", "disruptions", "gpu_seconds", "wall_seconds"),
    [
        ((0, 0, 0.0, 0.0), 2, 2, 2, 600.0, 1800.0),
        ((0, 0, 0.0, 0.0), 9, 2, 2, 600.0, 1800.0),
        ((0, 0, 0.0, 0.0), 0, 0, 2, 600.0, 1800.0),
        ((1, 1, 100.0, 300.0), 2, 1, 1, 500.0, 1500.0),
        ((2, 2, 600.0, 1800.0), 2, 0, 0, 0.0, 0.0),
        ((9, 9, 900.0, 9000.0), 2, 0, 0, 0.0, 0.0),
    ],
)
def test_the_next_job_may_spend_what_is_left_and_no_more_than_its_backoff(
    spent: tuple[int, int, float, float],
    backoff_limit: int,
    failures: int,
    disruptions: int,
    gpu_seconds: float,
    wall_seconds: float,
) -> None:
    so_far = Spending(failures=spent[0], disruptions=spent[1], gpu_seconds=spent[2], wall_seconds=spent[3])
    given = allowance(replace(BUDGET, gpu_seconds=600), so_far, backoff_limit=backoff_limit, deadline_seconds=1800)
    assert (given.failures, given.disruptions) == (failures, disruptions)
    assert (given.gpu_seconds, given.wall_seconds) == (gpu_seconds, wall_seconds)


@given(st.integers(1, 100), st.integers(0, 20), st.integers(0, 99))
def test_failures_of_all_jobs_together_never_pass_the_budget(attempts: int, backoff_limit: int, before: int) -> None:
    assume(before < attempts)
    budget = Budget(attempts=attempts, disruptions=0, gpu_seconds=None, wall_seconds=10)
    spent = Spending(failures=before, disruptions=0, gpu_seconds=0.0, wall_seconds=0.0)
    left = allowance(budget, spent, backoff_limit=backoff_limit, deadline_seconds=1800)
    assert before + left.failures + 1 <= attempts  # the failure after those that it makes good ends it


def test_attempts_are_numbered_over_a_generation() -> None:
    jobs = (
        ended_job(1, attempts=failed_attempts(2)),
        ended_job(2, attempts=(attempt("b"),)),
        ended_job(3, generation=2, attempts=(attempt("c"),)),
    )
    ledger = ledger_of(*jobs, generation=2)
    assert [(a.number, a.uid) for a in attempts_in(ledger, 1)] == [(1, "a0"), (2, "a1"), (3, "b")]
    assert [(a.number, a.uid) for a in attempts_in(ledger, 2)] == [(1, "c")]


# It stays small.


def many(count: int, **changes: Any) -> tuple[LedgerJob, ...]:
    return tuple(
        ended_job(n, attempts=failed_attempts(1), unseen_gpu_seconds=2.0, **changes) for n in range(1, count + 1)
    )


def test_old_jobs_are_summed_up_and_nothing_that_they_used_is_lost() -> None:
    ledger = ledger_of(*many(JOBS_KEPT + 5), period=2)
    folded = ledger.folded()
    assert [job.number for job in folded.jobs] == list(range(6, JOBS_KEPT + 6))
    assert (folded.folded_jobs, folded.folded_gpu_seconds) == (5, 60.0)
    assert folded.folded() == folded
    assert folded.next_number == ledger.next_number


def test_no_job_that_spends_the_budget_or_lives_is_folded() -> None:
    current = ledger_of(*many(JOBS_KEPT + 5))
    assert current.folded() == current
    lives = ledger_of(ledger_job(1), *many(JOBS_KEPT + 5)[1:], period=2)
    assert lives.folded().open_job == ledger_job(1)


@given(ledgers())
def test_folding_changes_nothing_that_is_asked(ledger: Any) -> None:
    folded = ledger.folded()
    assert folded.open_job == ledger.open_job
    assert folded.current_jobs() == ledger.current_jobs()


def test_a_ledger_that_grew_for_years_fits_a_config_map() -> None:
    ledger = ledger_of(*many(3000), period=3001, generation=3000)
    for n in range(1, 3001):
        claim = Claim(task="x" * 1000, max_tries=1, generation=n, number=n, at=0.0)
        ledger = ledger.with_trained(trained(n, n)).with_claim(replace(claim, task=f"{n}{claim.task}"))
    assert (len(ledger.claims), len(ledger.trained)) == (CLAIMS_KEPT, JOBS_KEPT)
    assert ledger.trained_in(3000) is not None
    assert len(to_text(ledger)) < 500_000
