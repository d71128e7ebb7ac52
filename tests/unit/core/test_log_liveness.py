"""When a log is caught up with: what of its lines, and of its streams' openings and ends, tells the past from now."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpu_training.core.log_liveness import FAR_S, PACE_S, LogLiveness

pytestmark = pytest.mark.core

CATCH_UP_S = 5.0
DEAF_S = 30.0
SKEWS = st.floats(-1e5, 1e5)
LONG = 100.0


def new() -> LogLiveness:
    return LogLiveness(catch_up_s=CATCH_UP_S, deaf_s=DEAF_S)


def opened(at: float = 0.0) -> LogLiveness:
    log = new()
    log.open(at)
    return log


def test_a_log_that_was_never_open_is_not_live() -> None:
    log = new()
    log.close(0.0, is_whole=True)
    assert not log.is_live(LONG)


def test_a_silent_log_is_live_once_it_was_open_for_a_while() -> None:
    log = opened()
    assert [log.is_live(at) for at in (0.0, 4.9, 5.0, LONG)] == [False, False, True, True]


@given(skew=SKEWS, late=st.lists(st.floats(0.0, 0.9 * PACE_S), min_size=1, max_size=50))
def test_a_log_that_tells_what_is_said_now_is_live_however_wrong_its_nodes_clock_is(
    skew: float, late: list[float]
) -> None:
    log = opened()
    for tenth, each in enumerate(late):
        log.tell(tenth / 10, skew + each)
    assert log.is_live(CATCH_UP_S)


@given(ago=st.floats(1e4, 1e6), pace=st.one_of(st.floats(0.0, 0.5), st.floats(2.0, 1e5)), pause=st.floats(0.05, 0.9))
@example(ago=1e5, pace=0.0, pause=0.05)
@example(ago=1e6, pace=100.0, pause=0.9)
def test_a_log_that_tells_of_the_past_is_not_live_however_slowly_it_comes(
    ago: float, pace: float, pause: float
) -> None:
    log, at = opened(), 0.0
    while at < LONG and (behind := ago + at - pace * at) > FAR_S:
        log.tell(at, behind)
        assert not log.is_live(at)
        at += pause


def test_what_is_no_longer_far_away_holds_nothing_up() -> None:
    log = opened()
    log.tell(1.0, 3600.0)
    for tenth in range(11, 70):
        log.tell(tenth / 10, 65.0 - tenth)
    assert log.is_live(6.5)


def test_lines_without_a_moment_hold_nothing_up() -> None:
    log = opened()
    for second in range(6):
        log.tell(float(second), None)
    assert log.is_live(5.0)


def test_a_live_log_stays_so_whatever_its_node_says_of_the_moment() -> None:
    log = opened()
    for second, behind in ((6.0, 3600.0), (7.0, 7200.0), (8.0, -7200.0)):
        log.tell(second, behind)
        assert log.is_live(second)


def test_pieces_of_a_stream_that_is_cut_add_up_and_the_time_between_them_does_not() -> None:
    log = new()
    for at in (0.0, 10.0, 20.0):
        log.open(at)
        log.close(at + 1.5, is_whole=False)
        assert not log.is_live(at + 9.0)
    log.open(30.0)
    assert [log.is_live(at) for at in (30.4, 30.5)] == [False, True]


def test_streams_that_end_at_once_make_a_log_live_where_they_bring_nothing_of_the_past_for_a_while() -> None:
    log = new()
    for at, is_live in ((0.0, False), (1.0, False), (4.9, False), (10.0, True), (20.0, True)):
        log.open(at)
        log.close(at, is_whole=True)
        assert log.is_live(at) is is_live


def test_streams_that_end_at_once_with_more_of_the_past_each_time_do_not() -> None:
    log = new()
    for at in range(0, 100, 10):
        log.open(float(at))
        log.tell(float(at), 1e5 - 1000.0 * at)
        log.close(float(at), is_whole=True)
        assert not log.is_live(float(at))


@pytest.mark.parametrize(("closed_s", "is_live"), [(29.9, True), (30.0, False)])
def test_a_log_that_was_closed_for_long_is_caught_up_with_anew(closed_s: float, is_live: bool) -> None:
    log = opened()
    log.close(LONG, is_whole=False)
    again = LONG + closed_s
    assert log.is_live(again) is is_live
    log.open(again)
    assert log.is_live(again) is is_live
    assert log.is_live(again + CATCH_UP_S)


def test_what_was_counted_before_a_log_was_closed_for_long_counts_no_more() -> None:
    log = opened()
    log.close(4.0, is_whole=False)
    log.open(100.0)
    assert [log.is_live(at) for at in (101.0, 104.9, 105.0)] == [False, False, True]
