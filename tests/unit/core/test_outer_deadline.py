"""A Job's own deadline, which ends it when nobody watches: it leaves room for the queue, and none outside of it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.ledgers import ALLOWANCE, BUDGET, ended_job, ledger_job, ledger_of
from tests.unit.core.specs import spec

from gpu_training.core.ledger import LedgerJob
from gpu_training.core.next_job import NextJob, next_job
from gpu_training.core.observation import JobObservation
from gpu_training.core.orders import wanted_deadline
from gpu_training.core.queue_time import Interval, merged
from gpu_training.core.spec import MAXIMUM_DEADLINE_S

pytestmark = pytest.mark.core

WALL_S = 1800
RECORD = ledger_job(1, allowance=replace(ALLOWANCE, wall_seconds=float(WALL_S)))


def seen(deadline: int | None, *, started: float | None = 0.0, suspended: bool = False) -> JobObservation:
    return JobObservation(
        uid="uid-1", name="m", namespace="n", started_at=started, deadline_seconds=deadline, suspended=suspended
    )


def wanted(
    deadline: int | None,
    now: float,
    waits_since: float | None = None,
    *,
    queue: int | None = 600,
    waited: tuple[Interval, ...] = (),
    record: LedgerJob = RECORD,
    job: JobObservation | None = None,
) -> int | None:
    job = job if job is not None else seen(deadline)
    return wanted_deadline(replace(record, waited=waited), job, now, waits_since=waits_since, queue_seconds=queue)


# On a node.


@pytest.mark.parametrize(
    ("deadline", "now", "waited", "expected"),
    [
        # It waited for 400 s of the 600 that there was room for.
        (WALL_S + 600, 400.0, ((0.0, 400.0),), WALL_S + 400),
        (WALL_S + 600, 500.0, ((0.0, 400.0),), WALL_S + 400),
        (WALL_S + 600, 0.0, (), WALL_S),
        (MAXIMUM_DEADLINE_S, 400.0, ((0.0, 400.0),), WALL_S + 400),
        # It is what it should be, or less, or within what Kubernetes rounds.
        (WALL_S + 400, 500.0, ((0.0, 400.0),), None),
        (WALL_S + 402, 500.0, ((0.0, 400.0),), None),
        (WALL_S + 403, 500.0, ((0.0, 400.0),), WALL_S + 400),
        (100, 500.0, ((0.0, 400.0),), None),
    ],
)
def test_once_it_has_a_node_no_room_is_left_for_the_queue(
    deadline: int, now: float, waited: tuple[Interval, ...], expected: int | None
) -> None:
    assert wanted(deadline, now, waited=waited) == expected


def test_it_is_lowered_once_and_not_again_while_it_runs() -> None:
    deadline, patches = WALL_S + 600, 0
    for second in range(100, 1900, 7):
        new = wanted(deadline, float(second), waited=((0.0, 100.0),))
        if new is not None:
            deadline, patches = new, patches + 1
    assert (deadline, patches) == (WALL_S + 100, 1)


@pytest.mark.parametrize("now", [WALL_S, WALL_S + 1.5, 5 * WALL_S])
def test_it_is_never_below_what_is_spent_already(now: float) -> None:
    """A Job with nothing left is ended for a reason that stands on it, not by a deadline in the past."""
    assert wanted(MAXIMUM_DEADLINE_S, now) == math.ceil(now)


# While it waits.


@pytest.mark.parametrize(
    ("deadline", "now", "queue", "expected"),
    [
        # Made with room for all of the queue.
        (WALL_S + 600, 0.0, 600, None),
        (WALL_S + 600, 599.0, 600, None),
        # Another one, who waits longer, needs more room.
        (WALL_S + 600, 100.0, 900, WALL_S + 900),
        (WALL_S + 600, 100.0, None, MAXIMUM_DEADLINE_S),
        # One who waits less takes none away, nor one whose queue clock has run out.
        (WALL_S + 600, 100.0, 60, None),
        (WALL_S + 600, 500.0, 60, None),
        (WALL_S, 500.0, 60, WALL_S + 500),
        # Without room, as one of an earlier release.
        (WALL_S, 100.0, 600, WALL_S + 600),
    ],
)
def test_while_it_waits_there_is_room_for_the_rest_of_the_queue(
    deadline: int, now: float, queue: int | None, expected: int | None
) -> None:
    assert wanted(deadline, now, 0.0, queue=queue, waited=((0.0, now),)) == expected


def test_one_that_is_queued_again_gets_room_again() -> None:
    """It ran from 100 to 700, was preempted, and waits for a node since."""
    on_node = wanted(WALL_S + 600, 100.0, waited=((0.0, 100.0),))
    assert on_node == WALL_S + 100
    again = wanted(on_node, 710.0, 700.0, waited=((0.0, 100.0), (700.0, 710.0)))
    assert again == WALL_S + 100 + 600
    once_more = wanted(again, 900.0, waited=((0.0, 100.0), (700.0, 900.0)))
    assert once_more == WALL_S + 100 + 200


def test_no_deadline_is_beyond_what_the_spec_allows() -> None:
    assert wanted(WALL_S, 0.0, 0.0, queue=MAXIMUM_DEADLINE_S) == MAXIMUM_DEADLINE_S
    assert wanted(MAXIMUM_DEADLINE_S, 0.0, 0.0, queue=None) is None


@pytest.mark.parametrize("waits_since", [None, 0.0])
@pytest.mark.parametrize(
    "job",
    [
        seen(MAXIMUM_DEADLINE_S, suspended=True),
        seen(5, suspended=True),
        seen(MAXIMUM_DEADLINE_S, started=None),
        seen(None),
    ],
    ids=["suspended", "suspended with little", "not begun", "without a deadline"],
)
def test_where_no_deadline_runs_none_is_changed(job: JobObservation, waits_since: float | None) -> None:
    assert wanted(None, 100.0, waits_since, job=job) is None


def test_a_job_that_goes_on_after_a_suspension_counts_from_its_new_start() -> None:
    """Kubernetes counts anew at every resume; what was spent before is not given once more."""
    resumed = seen(WALL_S + 600, started=1000.0)
    waited = ((0.0, 100.0), (400.0, 1000.0))
    assert wanted(None, 1000.0, waited=waited, job=resumed) == WALL_S - 300


# How a Job is made.


@pytest.mark.parametrize(
    ("queue", "expected"),
    [(600, 1800 + 600), (0, MAXIMUM_DEADLINE_S), (MAXIMUM_DEADLINE_S, MAXIMUM_DEADLINE_S), (None, 1800 + 24 * 3600)],
)
def test_a_job_is_made_with_room_for_all_of_its_queue(queue: int | None, expected: int) -> None:
    declared = spec(clocks={} if queue is None else {"queue_seconds": queue})
    made = next_job(ledger_of(), declared, BUDGET, 0.0)
    assert (made.work_seconds, made.outer_deadline_seconds) == (1800, expected)


def test_what_a_predecessor_waited_is_not_taken_from_the_next_job() -> None:
    before = ended_job(1, ended_at=1000.0, waited=((0.0, 700.0),))
    made = next_job(ledger_of(before), spec(), BUDGET, 1000.0)
    assert made.work_seconds == BUDGET.wall_seconds - 300
    without = next_job(ledger_of(replace(before, waited=())), spec(), BUDGET, 1000.0)
    assert without.work_seconds == BUDGET.wall_seconds - 1000


def test_the_record_of_a_job_is_announced_without_a_wait() -> None:
    made: NextJob = next_job(ledger_of(), spec(), BUDGET, 0.0)
    record = made.record(number=1, generation=1, period=1, name="m", pods=1, now=5.0)
    assert record.waited == ()
    assert record.wall_seconds(100.0) == 0.0  # it is not there yet


# Several watch one Job, each with clocks of its own.

queues = st.none() | st.integers(min_value=1, max_value=5000)
stretches = st.lists(st.tuples(st.booleans(), st.integers(min_value=1, max_value=400)), min_size=1, max_size=6)


@given(
    stretches,
    st.lists(queues, min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 2400), st.integers(0, 2)), max_size=40),
    queues,
)
def test_two_watchers_never_undo_each_other(
    lives: list[tuple[bool, int]], clocks: list[int | None], looks: list[tuple[int, int]], made_with: int | None
) -> None:
    """In each stretch of waiting or running, whoever looks writes once at most, in one direction."""
    edges, waited, start = [], [], 0
    for waits, seconds in lives:
        edges.append((start, start + seconds, waits))
        waited += [(float(start), float(start + seconds))] if waits else []
        start += seconds
    deadline = MAXIMUM_DEADLINE_S if made_with is None else WALL_S + made_with
    written: dict[tuple[int, int], int] = {}
    for second, who in sorted(looks):
        here = next((n for n, (begin, end, _) in enumerate(edges) if begin <= second < end), None)
        if here is None:
            continue
        now, (begin, _, waits) = float(second), edges[here]
        who %= len(clocks)
        so_far = merged((left, min(right, now)) for left, right in waited)
        since = float(begin) if waits else None
        new = wanted(deadline, now, since, queue=clocks[who], waited=so_far)
        if new is not None:
            assert new > deadline if waits else new < deadline
            assert new >= second
            # Since it waits anew the first one may come late, but nobody writes twice.
            assert (here, who) not in written
            written[here, who] = deadline = new
        assert wanted(deadline, now, since, queue=clocks[who], waited=so_far) is None
        spent = second - sum(right - left for left, right in so_far)
        left = max(0.0, WALL_S - spent)
        if waits:
            rest = MAXIMUM_DEADLINE_S if clocks[who] is None else max(0.0, (clocks[who] or 0) - (now - begin))
            assert deadline >= min(MAXIMUM_DEADLINE_S, second + left + rest) - 2
        else:
            assert deadline <= math.ceil(max(1.0, second + left)) + 2
