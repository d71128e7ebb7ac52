"""When whoever waits gives up: a cause that no waiting cures, held for long enough, or a clock that has run out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.clock_readings import Reading
from gpu_training.core.clocks import Clock
from gpu_training.core.giving_up import NOTICED_AFTER_S, SURE_AFTER_S, seconds_until_sure, sure_after, verdict_on
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.verdict import LEFT, Action, Category, Owner, Verdict

pytestmark = pytest.mark.core

NOW = 1000.0
LONG = NOW - SURE_AFTER_S


def report(cure: Cure = Cure.NEVER, cause: Cause = Cause.TAINT_NOT_TOLERATED) -> Report:
    return Report(cause=cause, cure=cure, summary="no node takes it", remedy="tolerate the taint")


def reading(clock: Clock, elapsed: float = 60.0, limit: int | None = 60) -> Reading:
    return Reading(clock=clock, since=NOW - elapsed, elapsed=elapsed, limit=limit)


def given_up(
    told: Report | None = None, held_since: float | None = None, *readings: Reading, now: float = NOW
) -> Verdict | None:
    return verdict_on(told, held_since, readings, now)


# Causes.


@pytest.mark.parametrize(
    ("held", "ends"), [(0.0, False), (SURE_AFTER_S - 0.1, False), (SURE_AFTER_S, True), (3600.0, True)]
)
def test_a_cause_that_no_waiting_cures_ends_the_wait_when_it_has_held_for_a_while(held: float, ends: bool) -> None:
    verdict = given_up(report(), NOW - held)
    assert (verdict is not None) is ends
    assert seconds_until_sure(report(), NOW - held, NOW) == pytest.approx(max(0.0, SURE_AFTER_S - held))


@pytest.mark.parametrize("cause", [Cause.SECRET_MISSING, Cause.SERVICE_ACCOUNT_MISSING, Cause.QUOTA_EXCEEDED])
def test_what_may_be_made_a_moment_after_the_job_has_time_to_be_noticed(cause: Cause) -> None:
    """A service account that is made after 4 s is noticed after 13.5 s, at the Job controller's next try but one."""
    assert given_up(report(cause=cause), NOW - 14) is None
    assert given_up(report(cause=cause), NOW - NOTICED_AFTER_S) is not None


def test_since_when_it_holds_has_to_be_known() -> None:
    assert given_up(report(), None) is None
    assert seconds_until_sure(report(), None, NOW) is None


@pytest.mark.parametrize("cure", [Cure.WAITING, Cure.TRANSIENT])
@pytest.mark.parametrize("cause", [Cause.GPUS_TAKEN, Cause.IMAGE_RATE_LIMITED, Cause.AUTOSCALER_SCALING_UP])
def test_what_waiting_cures_ends_nothing_however_long_it_holds(cause: Cause, cure: Cure) -> None:
    assert given_up(report(cure, cause), 0.0, reading(Clock.QUEUE, 59.0)) is None
    assert seconds_until_sure(report(cure, cause), 0.0, NOW) is None


def test_a_training_that_does_not_wait_is_not_given_up() -> None:
    assert given_up(None, None) is None
    assert seconds_until_sure(None, None, NOW) is None


def test_the_verdict_tells_cause_facts_and_remedy_and_no_retry_helps() -> None:
    assert given_up(report(), LONG) == Verdict(
        category=Category.CAN_NOT_START,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        summary="waiting does not help (taint_not_tolerated): no node takes it",
        remedy="tolerate the taint",
    )


_OF_THE_CLUSTER = {Cause.NO_GPU_NODES, Cause.DEVICE_PLUGIN_DOWN, Cause.NODES_CORDONED, Cause.NODES_NOT_READY}


@pytest.mark.parametrize("cause", list(Cause))
def test_what_the_cluster_lacks_is_its_operators_and_all_else_the_teams(cause: Cause) -> None:
    verdict = given_up(report(cause=cause), NOW - sure_after(cause))
    assert verdict is not None
    assert verdict.owner is (Owner.INFRASTRUCTURE if cause in _OF_THE_CLUSTER else Owner.CONFIGURATION)
    assert f"({cause})" in verdict.summary


# Clocks.

ROWS = [
    (Clock.QUEUE, Category.QUEUE_TIMEOUT, Owner.INFRASTRUCTURE, Action.FAIL, "it got no node within 60 s"),
    (
        Clock.STARTUP,
        Category.STARTUP_TIMEOUT,
        Owner.INFRASTRUCTURE,
        Action.RETRY,
        "it had a node, and its training container did not start within 60 s",
    ),
    (Clock.RUN, Category.RUN_TIMEOUT, Owner.APPLICATION, Action.FAIL, "the attempt ran, and did not end within 60 s"),
    (
        Clock.STALL,
        Category.STALLED,
        Owner.APPLICATION,
        Action.RETRY,
        "the attempt ran, and reported no progress within 60 s",
    ),
    (Clock.TOTAL, Category.TOTAL_TIMEOUT, Owner.INFRASTRUCTURE, Action.FAIL, "it was not done within 60 s"),
]


@pytest.mark.parametrize(("clock", "category", "owner", "action", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_a_clock_that_has_run_out_names_its_field_and_its_limit(
    clock: Clock, category: Category, owner: Owner, action: Action, said: str
) -> None:
    verdict = given_up(None, None, reading(clock))
    assert verdict is not None
    assert (verdict.category, verdict.owner, verdict.action) == (category, owner, action)
    assert verdict.summary == f"{said} (training.clocks.{clock}_seconds)"
    assert f"training.clocks.{clock}_seconds" in verdict.remedy
    assert verdict.category in LEFT


def test_every_clock_has_a_row() -> None:
    assert [row[0] for row in ROWS] == list(Clock)


@pytest.mark.parametrize("clock", list(Clock))
@pytest.mark.parametrize(("elapsed", "limit"), [(59.9, 60), (1e9, None)])
def test_a_clock_with_time_left_or_without_a_limit_ends_nothing(
    clock: Clock, elapsed: float, limit: int | None
) -> None:
    assert given_up(None, None, reading(clock, elapsed, limit)) is None


@pytest.mark.parametrize(
    ("clock", "tells", "advises"),
    [
        (Clock.QUEUE, True, True),
        (Clock.STARTUP, True, True),
        (Clock.RUN, False, False),
        (Clock.STALL, True, False),
        (Clock.TOTAL, True, False),
    ],
)
def test_a_time_out_carries_why_it_waited_and_what_would_have_helped(clock: Clock, tells: bool, advises: bool) -> None:
    taken = Report(cause=Cause.GPUS_TAKEN, cure=Cure.WAITING, summary="8 of 8 GPUs are held", remedy="wait for m-1")
    verdict = given_up(taken, 0.0, reading(clock))
    assert verdict is not None
    assert verdict.summary.endswith(" (gpus_taken): 8 of 8 GPUs are held") is tells
    assert verdict.remedy.startswith("wait for m-1; or ") is advises
    assert f"training.clocks.{clock}_seconds" in verdict.remedy


# Precedence.


@pytest.mark.parametrize("clock", list(Clock))
def test_a_cause_that_no_waiting_cures_explains_more_than_a_clock_that_ran_out_beside_it(clock: Clock) -> None:
    sure = given_up(report(), LONG, reading(clock))
    assert sure is not None
    assert sure.category is Category.CAN_NOT_START
    unsure = given_up(report(), NOW, reading(clock))
    assert unsure is not None
    assert unsure.category is not Category.CAN_NOT_START


@pytest.mark.parametrize("clock", list(Clock)[:-1])
def test_a_phases_own_clock_explains_more_than_the_total(clock: Clock) -> None:
    both = given_up(None, None, reading(clock), reading(Clock.TOTAL))
    assert both == given_up(None, None, reading(clock))


# Whoever waits sleeps until the moment, and not past it.

reports = st.none() | st.builds(report, st.sampled_from(Cure), st.sampled_from(Cause))


@given(reports, st.none() | st.floats(min_value=0, max_value=1000))
def test_after_the_seconds_until_sure_it_is_given_up(told: Report | None, held_since: float | None) -> None:
    left = seconds_until_sure(told, held_since, NOW)
    if left is None:
        assert given_up(told, held_since, now=NOW + 1e6) is None
        return
    assert 0 <= left <= SURE_AFTER_S
    assert given_up(told, held_since, now=NOW + left + 0.001) is not None
    assert left == 0 or given_up(told, held_since, now=NOW + left - 0.001) is None


@given(reports, st.none() | st.floats(min_value=0, max_value=1000), st.lists(st.sampled_from(Clock), unique=True))
def test_whoever_gives_up_says_so_by_a_category_of_its_own(
    told: Report | None, held_since: float | None, out: list[Clock]
) -> None:
    verdict = given_up(told, held_since, *(reading(clock) for clock in out))
    sure = told is not None and not told.curable and held_since is not None and held_since <= LONG
    assert (verdict is None) is (not out and not sure)
    assert verdict is None or verdict.category in LEFT
