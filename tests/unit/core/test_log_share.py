"""A training's share of the task log: every line is told, or said to be left out; order stays, and so do last words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.log_stamps import stamped

from gpu_training.core.log_allowance import Limits, size_of
from gpu_training.core.log_lines import START, Position, Reading, text_of
from gpu_training.core.log_share import LeftOut, Line, LogShare

pytestmark = pytest.mark.core

KEY = ("p", "training")
TIGHT = Limits(lines_per_second=1, burst_lines=4, bytes_per_second=100, burst_bytes=200, tail_lines=2, tail_bytes=60)


def say(share: LogShare, lines: list[str], now: float, key: tuple[str, str] = KEY) -> list[Line | LeftOut]:
    news = share.news(key, lines)
    return share.take(key, news, news, now)


def words(told: list[Line | LeftOut]) -> list[str]:
    """Give what is told: texts, and in brackets how many lines are left out."""
    return [each.text if isinstance(each, Line) else f"[{each.lines}]" for each in told]


def numbered(first: int, last: int) -> list[str]:
    return [stamped(n, f"line {n}") for n in range(first, last + 1)]


def test_what_fits_is_told_at_once() -> None:
    share = LogShare(Limits())
    assert words(say(share, numbered(1, 1000), 0.0)) == [f"line {n}" for n in range(1, 1001)]
    assert not share.holds_back


def test_of_a_flood_the_begin_and_the_end_are_told_and_the_rest_is_counted() -> None:
    share = LogShare(TIGHT)
    assert words(say(share, numbered(1, 50), 0.0)) == ["line 1", "line 2", "line 3", "line 4"]
    assert words(say(share, numbered(51, 90), 0.1)) == []
    assert share.holds_back
    assert words(share.release(1.0)) == []
    assert words(share.release(2.2)) == ["[84]", "line 89", "line 90"]
    assert not share.holds_back
    assert words(share.release(9.0)) == []


def test_how_much_is_left_out_is_told_in_bytes_of_text() -> None:
    share = LogShare(TIGHT)
    say(share, [*numbered(1, 4), stamped(5, "é" * 10), *numbered(6, 9)], 0.0)
    left_out = share.release(0.0, at_once=True)[0]
    assert isinstance(left_out, LeftOut)
    assert (left_out.lines, left_out.size) == (3, 20 + 2 * len("line 6"))


def test_a_flood_that_goes_on_is_shown_in_long_pieces_not_line_by_line() -> None:
    share = LogShare(Limits(lines_per_second=10, burst_lines=100, tail_lines=5))
    told, n = [], 0
    for tenth in range(600):
        told += words(say(share, numbered(n + 1, n + 100), tenth / 10))
        n += 100
    notices = [each for each in told if each.startswith("[")]
    assert 2 <= len(notices) <= 60 / 5 + 1
    assert len(told) - len(notices) <= 100 + 60 * 10


def test_the_last_words_are_told_though_nothing_is_left_of_the_share() -> None:
    share = LogShare(TIGHT)
    say(share, numbered(1, 50), 0.0)
    assert words(share.release(0.0, at_once=True)) == ["[44]", "line 49", "line 50"]


def test_a_quiet_log_is_heard_beside_one_that_floods() -> None:
    share = LogShare(Limits(lines_per_second=10, burst_lines=100, tail_lines=5))
    for second in range(5):
        say(share, numbered(1 + second * 1000, 1000 + second * 1000), float(second))
    assert words(say(share, [stamped(1, "I am well")], 5.0, ("q", "training"))) == ["I am well"]


def test_a_single_long_line_counts_by_its_bytes() -> None:
    share = LogShare(TIGHT)
    assert words(say(share, [stamped(1, "x" * 150)], 0.0)) == ["x" * 150]
    assert words(say(share, [stamped(2, "y" * 150)], 0.0)) == []
    assert words(share.release(1.2)) == ["y" * 150]


def test_what_is_kept_back_is_told_in_parts_where_that_is_more_than_may_be_told_at_once() -> None:
    share = LogShare(Limits(lines_per_second=1, burst_lines=4, tail_lines=10))
    say(share, numbered(1, 50), 0.0)
    assert words(share.release(3.0)) == []
    assert words(share.release(4.0)) == ["[36]", "line 41", "line 42", "line 43", "line 44"]
    assert share.position(KEY) == _position(44)
    assert words(share.release(8.0)) == ["line 45", "line 46", "line 47", "line 48"]
    assert words(share.release(9.0)) == []
    assert words(share.release(10.0)) == ["line 49", "line 50"]
    assert not share.holds_back
    assert share.position(KEY) == _position(50)


def test_a_line_that_is_longer_than_may_be_told_at_once_is_told_in_the_end() -> None:
    share = LogShare(replace(TIGHT, tail_bytes=1000))
    assert words(say(share, [stamped(1, "x" * 900), stamped(2, "y")], 0.0)) == []
    assert words(share.release(1.0)) == ["x" * 900]
    assert words(share.release(2.0)) == []
    assert words(share.release(20.0)) == ["y"]


@pytest.mark.parametrize("many", [1, 100])
def test_lines_without_a_stamp_are_counted_as_they_are(many: int) -> None:
    lines = [stamped(1, "a"), *[" "] * many, " é", *[stamped(2, "bc")] * many]
    assert size_of(lines) == 1 + 2 + 2 * many
    assert size_of(lines[1:]) == 2 + 2 * many
    assert size_of([" "] * many) == size_of([]) == 0


def test_lines_that_earlier_task_logs_hold_are_no_news() -> None:
    reading = Reading()
    reading.new_lines(numbered(1, 3))
    share = LogShare(Limits(), {KEY: reading.position})
    assert words(say(share, numbered(1, 5), 0.0)) == ["line 4", "line 5"]
    assert share.position(("other", "training")) == START


@given(st.lists(st.sampled_from([-700, 0, 1, 1000]), min_size=1, max_size=30), st.data())
def test_whoever_goes_on_tells_each_line_that_was_not_told_once(steps: list[int], data: st.DataObject) -> None:
    moments, n, seen = [], 100_000, {100_000}
    for step in steps:  # a clock that goes back hits no moment twice
        if step == 0 or n + step not in seen:
            n += step
        seen.add(n)
        moments.append(n)
    log = [stamped(moment, str(k)) for k, moment in enumerate(moments)]
    told = data.draw(st.integers(0, len(log)))
    start = data.draw(st.integers(0, told))
    at_told, at_start = Reading(), Reading()
    at_told.new_lines(log[:told])
    at_start.new_lines(log[:start])
    share = LogShare(Limits(), {KEY: at_told.position}, starts={KEY: at_start.position})
    follower = Reading(at_start.position)
    assert words(say(share, list(follower.new_lines(log)), 0.0)) == [text_of(line) for line in log[told:]]
    whole = Reading()
    whole.new_lines(log)
    assert share.position(KEY) == whole.position


def test_lines_that_are_not_for_the_task_log_move_the_position_on() -> None:
    share = LogShare(Limits())
    news = share.news(KEY, numbered(1, 5))
    told = share.take(KEY, news, [news[1], news[3]], 0.0)
    assert [each.position.moment for each in told] == [_position(2).moment, _position(4).moment]
    assert share.position(KEY) == _position(5)


def _position(n: int) -> Position:
    reading = Reading()
    reading.new_lines(numbered(n, n))
    return reading.position


def test_the_position_that_is_written_down_is_before_what_is_not_told_yet() -> None:
    share = LogShare(TIGHT)
    say(share, numbered(1, 50), 0.0)
    assert share.position(KEY) == _position(4)
    assert share.holds_back_of(KEY)
    last = share.release(0.0, at_once=True)[-1]
    assert share.position(KEY) == last.position == _position(50)


@st.composite
def speeches(draw: st.DrawFn) -> list[tuple[str, float, list[int]]]:
    """Which container says how many lines when, and how long each is."""
    steps = st.tuples(
        st.sampled_from("abc"),
        st.floats(0, 3),
        st.lists(st.sampled_from([0, 1, 9, 80]), max_size=12),
    )
    return draw(st.lists(steps, max_size=25))


@given(speeches(), st.integers(1, 4), st.integers(1, 8))
def test_what_is_told_and_what_is_said_to_be_left_out_is_all_there_was(
    speeches: list[tuple[str, float, list[int]]], tail_lines: int, burst: int
) -> None:
    limits = Limits(
        lines_per_second=1.0,
        burst_lines=burst,
        bytes_per_second=40,
        burst_bytes=150,
        tail_lines=tail_lines,
        tail_bytes=90,
    )
    share, now, said = LogShare(limits), 0.0, dict[str, list[str]]()
    told: list[Line | LeftOut] = []
    for container, pause, sizes in speeches:
        now += pause
        lines = said.setdefault(container, [])
        news = [stamped(len(lines) + n, f"{len(lines) + n}".ljust(size, "x")) for n, size in enumerate(sizes)]
        lines += map(text_of, news)
        told += say(share, news, now, ("p", container))
        for key in {each.key for each in told}:
            held = [each for each in share._held if each == key]
            assert bool(held) == share.holds_back_of(key)
    told += share.release(now, at_once=True)

    for container, lines in said.items():
        at = 0
        for each in (each for each in told if each.key == ("p", container)):
            if isinstance(each, LeftOut):
                assert each.lines > 0
                assert each.size == sum(map(len, lines[at : at + each.lines]))
                at += each.lines
            else:
                assert each.text == lines[at]
                at += 1
        assert at == len(lines)
        # Whoever goes on from the last position has nothing to tell.
        assert lines == [] or share.position(("p", container)) == Position(moment=_moment(len(lines) - 1), count=1)


def _moment(n: int) -> tuple[int, int] | None:
    return _position(n).moment


@given(st.integers(1, 60), st.integers(1, 40))
def test_memory_is_bounded_by_the_tail(batches: int, size: int) -> None:
    share = LogShare(TIGHT)
    for batch in range(batches):
        say(share, numbered(1 + batch * size, (batch + 1) * size), 0.0)
    held = share._logs[KEY].held
    assert len(held) <= TIGHT.tail_lines
