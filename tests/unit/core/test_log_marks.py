"""A word in a record of the task log tells how far a container's log is told; what is printed never passes for one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.log_lines import START, Position
from gpu_training.core.log_marks import (
    MOST_LOGS,
    Told,
    begun_by,
    both,
    earlier,
    later,
    mark_of,
    position_of,
    told_by,
    told_in,
)

pytestmark = pytest.mark.core

KEY = ("m-1-abcde", "training")
AT = Position(moment=(1_796_065_200, 123_456_789), count=1)


def record(loc: str, event: str = "said") -> bytes:
    return json.dumps({"event": event, "loc": loc}, separators=(",", ":")).encode() + b"\n"


moments = st.tuples(st.integers(-(10**9), 10**10), st.integers(0, 10**9 - 1))
positions = st.builds(Position, moment=moments, count=st.integers(1, 10**6), latest=st.one_of(st.none(), moments))


@given(positions)
def test_a_mark_is_read_back(position: Position) -> None:
    assert position_of(mark_of(position)) == position


def test_a_mark_is_the_kubelets_own_stamp() -> None:
    assert mark_of(AT) == "2026-11-30T19:00:00.123456789Z"
    assert mark_of(Position(moment=AT.moment, count=3)) == "2026-11-30T19:00:00.123456789Z#3"
    assert mark_of(START) == ""


@pytest.mark.parametrize("word", ["", "x", "2026-13-30T19:00:00Z", "2026-11-30T19:00:00Z#0", "2026-11-30T19:00:00Z<9"])
def test_any_other_word_is_no_position(word: str) -> None:
    assert position_of(word) is None


@given(st.text())
def test_no_word_is_an_error(word: str) -> None:
    position_of(word)


EDGES = [
    f"{local}{part}{zone}"
    for local in ("9999-12-31T23:59:59", "0001-01-01T00:00:00")
    for part in ("", ".999999999")
    for zone in ("Z", "-12:00", "-23:59")
]


@pytest.mark.parametrize("word", [*EDGES, *(f"2026-11-30T19:00:00Z<{edge}" for edge in EDGES)])
def test_a_word_at_the_edge_of_all_years_is_a_position_that_can_be_written_or_none(word: str) -> None:
    position = position_of(word)
    assert position is None or position_of(mark_of(position)) == position


def test_a_moment_in_no_year_that_can_be_written_is_no_position() -> None:
    assert position_of("9999-12-31T23:59:59-12:00") is None
    assert position_of("2026-11-30T19:00:00Z<9999-12-31T23:59:59-12:00") is None
    assert position_of("9999-12-31T11:59:59-12:00") is not None


def test_the_last_record_of_each_log_tells_how_far_it_is() -> None:
    further = Position(moment=AT.moment, count=2)
    other = ("m-1-abcde", "download")
    records = record(begun_by("0123abcd")) + record(told_by(KEY, AT)) + record(told_by(other, AT))
    first = told_in(records)
    assert first == Told(logs=frozenset({"0123abcd"}), positions={KEY: AT, other: AT})
    assert told_in(record(told_by(KEY, further)), first).positions == {KEY: further, other: AT}
    assert told_in(b"no record at all", first) == first


@given(st.text(max_size=40))
def test_what_a_program_prints_is_never_a_mark(text: str) -> None:
    printed = f'{text}"loc":"{told_by(KEY, AT)}"}}\n{{"loc":"{begun_by("0123abcd")}"}}'
    assert told_in(json.dumps({"event": printed, "loc": "x"}, separators=(",", ":")).encode()) == Told()


def test_a_torn_record_tells_nothing() -> None:
    assert told_in(record(told_by(KEY, AT))[:-12]) == Told()


def test_of_two_task_logs_the_one_that_goes_further_counts() -> None:
    back = Position(moment=(AT.moment[0] - 5, 0), count=1, latest=AT.moment) if AT.moment else AT
    one, other = Told(logs=frozenset({"a"}), positions={KEY: AT}), Told(logs=frozenset({"b"}), positions={KEY: back})
    assert both(one, other) == both(other, one) == Told(logs=frozenset({"a", "b"}), positions={KEY: back})
    assert (earlier(AT, back), later(AT, back), earlier(START, AT)) == (AT, back, START)


def test_memory_is_bounded_however_many_logs_there_are() -> None:
    records = b"".join(record(told_by((f"p{n}", "training"), AT)) for n in range(MOST_LOGS + 10))
    positions = told_in(records).positions
    assert len(positions) == MOST_LOGS
    assert (f"p{MOST_LOGS + 9}", "training") in positions
