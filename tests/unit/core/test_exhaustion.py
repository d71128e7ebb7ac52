"""What of a budget is spent is told in words, and no other Job is made then."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.ledgers import ALLOWANCE, attempt, ended_job, failed_attempts, ledger_job, ledger_of

from gpu_training.core.budget import Allowance, Budget
from gpu_training.core.exhaustion import exhausted, overdrawn, seconds_left, spent_verdict
from gpu_training.core.ledger import LedgerJob
from gpu_training.core.spending import Spending, allowance, spending
from gpu_training.core.verdict import Action, Category, Owner

pytestmark = pytest.mark.core

NOW = 1000.0


def budget(**changes: Any) -> Budget:
    return Budget(**{"attempts": 3, "disruptions": 2, "gpu_seconds": 100, "wall_seconds": 600, **changes})


_WAIT = Action.WAIT
ROWS: list[tuple[str, tuple[LedgerJob, ...], Budget, bool, str | None]] = [
    ("nothing yet", (), budget(), False, None),
    ("two of three attempts", (ended_job(attempts=failed_attempts(2)),), budget(), False, None),
    ("all attempts", (ended_job(attempts=failed_attempts(3)),), budget(), False, "3 of 3 attempts"),
    ("all attempts, of two Jobs",
     (ended_job(1, attempts=failed_attempts(2)), ended_job(2, attempts=failed_attempts(1))),
     budget(), False, "3 of 3 attempts"),
    ("more attempts than there are", (ended_job(attempts=failed_attempts(3)),), budget(attempts=1), True,
     "3 of 1 attempts"),
    ("as many disruptions as allowed", (ended_job(attempts=failed_attempts(2, _WAIT)),), budget(), False, None),
    ("one more", (ended_job(attempts=failed_attempts(3, _WAIT)),), budget(), False,
     "3 disruptions, of which 2 are allowed"),
    ("one more, and somewhere else to go", (ended_job(attempts=failed_attempts(3, _WAIT)),), budget(), True, None),
    ("somewhere else has been tried", (ended_job(attempts=failed_attempts(3, _WAIT), on_demand=True),), budget(), True,
     "3 disruptions, of which 2 are allowed"),
    ("GPU-seconds left", (ended_job(unseen_gpu_seconds=99.9),), budget(), False, None),
    ("no GPU-seconds left", (ended_job(unseen_gpu_seconds=100),), budget(), False, "100 of 100 GPU-seconds"),
    ("GPU-seconds without a limit", (ended_job(unseen_gpu_seconds=1e9),), budget(gpu_seconds=None), False, None),
    ("too little wall time for a Job", (ended_job(),), budget(wall_seconds=104), False,
     "100 of 104 seconds of wall time"),
    ("wall time for a Job", (ended_job(),), budget(wall_seconds=105), False, None),
    ("a Job that was announced and never made", (ledger_job(uid=None, created_at=0.0),), budget(), False, None),
    ("a budget shorter than any Job", (), budget(wall_seconds=1), False, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "allowed", "has_fallback", "what"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_a_budget_is_spent_when_one_part_of_it_is(
    jobs: tuple[LedgerJob, ...], allowed: Budget, has_fallback: bool, what: str | None
) -> None:
    assert exhausted(ledger_of(*jobs), allowed, NOW, has_fallback=has_fallback) == what


def test_what_earlier_periods_spent_is_not_counted() -> None:
    ledger = ledger_of(ended_job(1, attempts=failed_attempts(9)), period=2)
    assert exhausted(ledger, budget(), NOW, has_fallback=False) is None


def allowed(**changes: Any) -> Allowance:
    return Allowance(**{"failures": 2, "disruptions": 1, "gpu_seconds": 50.0, "wall_seconds": 300.0, **changes})


@pytest.mark.parametrize(
    ("changes", "now", "what"),
    [
        ({}, 0.0, None),
        ({"attempts": failed_attempts(1, _WAIT)}, 0.0, None),
        ({"attempts": failed_attempts(2, _WAIT)}, 0.0, "2 disruptions, of which 1 were left"),
        ({"unseen_gpu_seconds": 49.9}, 0.0, None),
        ({"unseen_gpu_seconds": 50.0}, 0.0, "50 of the 50 GPU-seconds that were left"),
        ({"unseen_gpu_seconds": 50.0, "allowance": allowed(gpu_seconds=None)}, 0.0, None),
        # Kubernetes' own deadline comes first; ours is for what it does not count.
        ({}, 304.9, None),
        ({}, 305.0, "305 of the 300 seconds of wall time that were left"),
    ],
)
def test_a_job_that_lives_is_overdrawn_by_what_its_allowance_does_not_cover(
    changes: dict[str, Any], now: float, what: str | None
) -> None:
    assert overdrawn(ledger_job(1, **{"allowance": allowed(), **changes}), now) == what


spent_jobs = st.builds(
    ended_job,
    st.just(1),
    attempts=st.builds(failed_attempts, st.integers(0, 4), st.sampled_from([Action.RETRY, _WAIT])),
    unseen_gpu_seconds=st.floats(0, 200),
    ended_at=st.floats(0, 700),
)
budgets = st.builds(
    Budget,
    attempts=st.integers(1, 4),
    disruptions=st.integers(0, 4),
    gpu_seconds=st.none() | st.integers(1, 200),
    wall_seconds=st.integers(10, 700),
)


@given(spent_jobs, budgets, st.integers(0, 3), st.lists(st.sampled_from([Action.RETRY, _WAIT]), max_size=4))
def test_a_job_that_is_overdrawn_has_spent_the_budget(
    before: LedgerJob, ceiling: Budget, backoff_limit: int, happened: list[Action]
) -> None:
    """What ends a Job for its budget's sake lets no other one be made: both count alike."""
    left = allowance(ceiling, spending([before], NOW), backoff_limit=backoff_limit, deadline_seconds=10_000)
    attempts = tuple(attempt(f"n{n}", start=20.0 * n, end=20.0 * n + 10, action=a) for n, a in enumerate(happened))
    job = ledger_job(2, allowance=left, attempts=attempts)
    now = 80.0
    if overdrawn(job, now) is not None:
        ledger = ledger_of(before, job)
        assert exhausted(ledger, ceiling, now, has_fallback=False) is not None


@pytest.mark.parametrize(
    ("changes", "held", "now", "seconds"),
    [
        ({}, 0, 0.0, 305.0),
        ({}, 0, 100.0, 205.0),
        ({}, 2, 0.0, 25.0),
        ({"unseen_gpu_seconds": 40.0}, 1, 0.0, 10.0),
        ({"unseen_gpu_seconds": 60.0}, 1, 0.0, 0.0),
        ({"allowance": allowed(gpu_seconds=None)}, 8, 100.0, 205.0),
        ({}, 0, 9999.0, 0.0),
    ],
)
def test_whoever_watches_knows_when_to_look_again(
    changes: dict[str, Any], held: int, now: float, seconds: float
) -> None:
    job = ledger_job(1, **{"allowance": allowed(), **changes})
    assert seconds_left(job, job.allowance, held, now) == seconds


def test_the_verdict_says_what_is_spent_and_where_all_went() -> None:
    spent = Spending(failures=3, disruptions=1, gpu_seconds=120.5, wall_seconds=400.4)
    said = spent_verdict("3 of 3 attempts", spent)
    assert (said.category, said.owner, said.action) == (Category.BUDGET_SPENT, Owner.CONFIGURATION, Action.FAIL)
    assert said.summary == (
        "the budget is spent: 3 of 3 attempts; in all 3 failures, 1 disruptions, 120.5 GPU-seconds, 400 s of wall time"
    )
    assert "clear the task" in said.remedy
    assert ALLOWANCE.failures == 2
