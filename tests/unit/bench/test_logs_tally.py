"""Every line of a stream is told from one that was lost, came twice, or was never said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.logs.tally import Tally
from bench.logs.telling import CountedLog
from bench.logs.writer import LINE_BYTES, TEXT

pytestmark = pytest.mark.unit

STAMP = "2026-12-01T15:00:00.25Z "


def lines(*numbers: int) -> list[str]:
    return [STAMP + TEXT % number for number in numbers]


def counts(tally: Tally) -> tuple[int, int, int]:
    return tally.missing, tally.repeated, tally.foreign


def test_a_line_of_any_number_has_its_hundred_bytes() -> None:
    assert {len(TEXT % number + "\n") for number in (0, 7, 10**10 - 1)} == {LINE_BYTES}


@given(st.lists(st.integers(1, 9), max_size=20))
def test_lines_in_order_are_all_there_however_they_come(sizes: list[int]) -> None:
    tally, first = Tally(sum(sizes)), 0
    for size in sizes:
        assert tally.missing == sum(sizes) - first
        tally.take(lines(*range(first, first + size)))
        first += size
    assert tally.is_complete
    assert counts(tally) == (0, 0, 0)
    assert (tally.arrived, tally.size) == (sum(sizes), sum(sizes) * (len(STAMP) + LINE_BYTES))


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([[0, 1, 2, 3]], (0, 0, 0)),
        ([[0, 1], [3]], (1, 0, 0)),
        ([[0], [2, 3]], (1, 0, 0)),
        ([[0, 1, 2]], (1, 0, 0)),
        ([[0, 1, 1, 2, 3]], (0, 1, 0)),
        ([[0, 1], [0, 1], [2, 3]], (0, 2, 0)),
        ([[0, 1, 2, 3], [3]], (0, 1, 0)),
        ([[0, 2, 1, 3]], (1, 1, 0)),
        ([[0, 1, 2, 3, 4]], (0, 0, 1)),
        ([], (4, 0, 0)),
    ],
)
def test_what_is_wrong_is_counted(taken: list[list[int]], expected: tuple[int, int, int]) -> None:
    tally = Tally(4)
    for numbers in taken:
        tally.take(lines(*numbers))
    assert counts(tally) == expected


@given(st.text(max_size=200))
def test_another_line_is_foreign_and_hides_none(text: str) -> None:
    tally = Tally(3)
    tally.take([*lines(0), STAMP + text, *lines(1, 2)])
    assert counts(tally) == (0, 0, 1)


def test_a_line_of_which_a_character_is_another_is_no_line_that_was_said() -> None:
    tally = Tally(2)
    tally.take([*lines(0), lines(1)[0].replace("loss", "gain")])
    assert counts(tally) == (1, 0, 1)


def test_lines_that_are_neither_told_nor_said_to_be_left_out_are_a_fault() -> None:
    log = CountedLog()
    for number in range(3):
        log.info("%s", f"line {number}", loc="somewhere")
    log.info("log of pod %s, container %s:", "p", "training")
    log.warning("left out: %d lines", 5, loc="somewhere")
    assert log.faults(8) == []
    assert log.faults(9) == ["1 lines neither told nor counted"]
