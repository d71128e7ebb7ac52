"""Each line of a log is given once and in order, wherever a stream breaks and whatever the clock of the node does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.log_lines import START, Moment, Position, Reading, stamp_of, text_of

pytestmark = pytest.mark.core

BEGIN = 1_800_000_000


def stamp(moment: Moment, zone: int = 0) -> str:
    """As the kubelet writes a moment."""
    local = datetime.fromtimestamp(moment[0], UTC) + timedelta(hours=zone)
    return f"{local:%Y-%m-%dT%H:%M:%S}.{moment[1]:09d}" + (f"{zone:+03d}:00" if zone else "Z")


def line_of(moment: Moment, text: str = "said") -> str:
    return f"{stamp(moment)} {text}"


def second_of(since: str | None) -> int:
    return 0 if since is None else int(datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp())


@pytest.mark.parametrize(
    ("line", "moment", "text"),
    [
        ("2026-11-30T19:00:00.123456789Z said", (1796065200, 123456789), "said"),
        ("2026-11-30T19:00:00.5Z said so", (1796065200, 500000000), "said so"),
        ("2026-11-30T21:00:00+02:00 said", (1796065200, 0), "said"),
        ("2026-11-30T19:00:00Z ", (1796065200, 0), ""),
        ("2026-13-30T19:00:00Z said", None, "said"),
        ("٢٠٢٦-11-30T19:00:00Z said", None, "said"),
        (" no stamp", None, "no stamp"),
        ("", None, ""),
    ],
)
def test_a_stamp_is_read_to_the_nanosecond(line: str, moment: Moment | None, text: str) -> None:
    assert (stamp_of(line), text_of(line)) == (moment, text)


def test_a_log_that_was_never_read_is_asked_for_from_its_start() -> None:
    assert Reading().since is None
    assert Reading().position == START


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """A log whose clock stands, goes on, and goes back; it never hits a nanosecond twice but in a row."""
    steps = draw(
        st.lists(
            st.sampled_from([0, 0, 1, 400_000_000, 1_500_000_000, -700_000_000, -5_000_000_000]),
            min_size=1,
            max_size=40,
        )
    )
    now, lines = BEGIN * 10**9, []
    for number, step in enumerate(steps):
        now += step + (number * 1000 if step else 0)
        lines.append(line_of(divmod(now, 10**9), f"line {number}"))
    stamps = [line.partition(" ")[0] for line in lines]
    runs = [each for at, each in enumerate(stamps) if at == 0 or stamps[at - 1] != each]
    return lines if len(set(runs)) == len(runs) else lines[:1]


def pieces(data: st.DataObject, lines: list[str]) -> list[list[str]]:
    cuts = sorted(data.draw(st.lists(st.integers(min_value=0, max_value=len(lines)), max_size=5)))
    edges = [0, *cuts, len(lines)]
    return [lines[a:b] for a, b in pairwise(edges)]


@pytest.mark.case("C061")
@given(logs(), st.data())
def test_each_line_is_given_once_and_in_order_however_often_the_stream_breaks(
    log: list[str], data: st.DataObject
) -> None:
    written, reading, told, due = 0, Reading(), list[str](), list[str]()
    for last in [False] * data.draw(st.integers(min_value=0, max_value=8)) + [True]:
        if data.draw(st.booleans()):
            reading = Reading(reading.position)  # another process goes on
        reading.resume()
        known, since = written, second_of(reading.since)
        written = len(log) if last else data.draw(st.integers(min_value=written, max_value=len(log)))
        offered = [line for line in log[:written] if (stamp_of(line) or (0, 0))[0] >= since]
        # What is said from now on, at a time before the one that the API was asked for, it does not give.
        due += [line for line in log[known:written] if line in offered]
        for piece in pieces(data, offered):
            told += reading.new_lines(piece)
        assert not reading.lost_its_place

    assert told == due


@pytest.mark.case("C061")
def test_what_was_read_before_a_clock_went_back_is_not_told_again() -> None:
    log = [line_of((BEGIN + at, 0), f"line {n}") for n, at in enumerate([0, 1, 2, 3, 0, 1])]
    log[4:] = [line.replace(".000000000Z", ".000000007Z") for line in log[4:]]
    reading = Reading()
    assert reading.new_lines(log[:5]) == log[:5]
    reading.resume()
    assert second_of(reading.since) == BEGIN
    assert reading.new_lines(log) == log[5:]


def test_a_log_whose_file_was_changed_begins_after_what_was_read_and_says_so() -> None:
    reading = Reading(Position(moment=(BEGIN, 5), count=3))
    rotated = [line_of((BEGIN, 6)), line_of((BEGIN, 7))]
    assert reading.new_lines(rotated) == rotated
    assert reading.lost_its_place


def test_a_run_of_equal_moments_goes_on_behind_the_lines_that_were_read() -> None:
    run = [line_of((BEGIN, 5), str(n)) for n in range(5)]
    reading = Reading()
    assert reading.new_lines(run[:2]) == run[:2]
    assert reading.new_lines(run[2:3]) == run[2:3]
    assert reading.position == Position(moment=(BEGIN, 5), count=3)
    reading.resume()
    assert reading.new_lines(run) == run[3:]
    assert reading.position.count == 5


def test_lines_without_a_stamp_are_told_as_they_come_and_not_again() -> None:
    log = [" begin", line_of((BEGIN, 5)), " between", line_of((BEGIN, 5)), " end"]
    reading = Reading()
    assert reading.new_lines(log) == log
    assert reading.position == Position(moment=(BEGIN, 5), count=2)
    reading.resume()
    assert reading.new_lines([*log[1:4], line_of((BEGIN, 6))]) == [line_of((BEGIN, 6))]
    assert Reading().new_lines([" only this"]) == [" only this"]


def test_a_position_without_a_count_is_before_its_moment() -> None:
    assert Reading(Position(moment=(BEGIN, 5))).new_lines([line_of((BEGIN, 4)), line_of((BEGIN, 5))]) == [
        line_of((BEGIN, 5))
    ]


LOG = [line_of((BEGIN, n), f"line {n}") for n in range(10)]


@pytest.mark.parametrize(
    ("read", "tail", "given_from", "has_gap"),
    [
        (0, LOG[-3:], 7, False),
        (0, LOG[-4:], 7, True),
        (2, LOG[-4:], 7, True),
        # The first of them may be another line of the same moment.
        (7, LOG[-4:], 7, True),
        (8, LOG[-4:], 8, False),
        (9, LOG[-4:], 9, False),
        (10, LOG[-4:], 10, False),
    ],
)
def test_the_last_lines_are_those_not_told_yet_and_a_gap_before_them_is_known(
    read: int, tail: list[str], given_from: int, has_gap: bool
) -> None:
    reading = Reading()
    reading.new_lines(LOG[:read])
    assert reading.last_lines(tail, 3) == (LOG[given_from:], has_gap)
    assert reading.position == Position(moment=(BEGIN, 9), count=1)


@pytest.mark.parametrize(("read", "most", "given_from"), [(4, 2, 3), (4, 3, 2), (3, 2, 3)])
def test_last_lines_that_begin_within_many_of_one_moment_lose_none(read: int, most: int, given_from: int) -> None:
    log = [f"2026-11-30T19:00:00.00000000{n}Z {text}" for n, text in ((0, "a"), (1, "b"), (1, "c"), (1, "d"), (1, "e"))]
    reading = Reading()
    reading.new_lines(log[:read])
    assert reading.last_lines(log[-most - 1 :], most) == (log[given_from:], True)
