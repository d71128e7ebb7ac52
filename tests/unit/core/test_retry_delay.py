"""When the Job controller makes the next pod."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.retry_delay import LONGEST_DELAY_S, delay_after, describe_next_pod, next_pod_at

pytestmark = pytest.mark.core

MIDNIGHT = 1796083200.0  # 2026-12-01T00:00:00Z

DELAYS = [(-1, 0), (0, 0), (1, 10), (2, 20), (3, 40), (4, 80), (5, 160), (6, 320), (7, 600), (8, 600), (10**9, 600)]


@pytest.mark.case("C025")
@pytest.mark.parametrize(("ended", "delay"), DELAYS)
def test_the_wait_begins_with_ten_seconds_and_doubles_up_to_ten_minutes(ended: int, delay: float) -> None:
    assert delay_after(ended) == delay


@pytest.mark.parametrize(
    ("ends", "due"),
    [
        ([], None),
        ([MIDNIGHT], MIDNIGHT + 10),
        ([MIDNIGHT + 17, MIDNIGHT], MIDNIGHT + 37),
        ([MIDNIGHT, None], None),
        ([MIDNIGHT, float("nan")], None),
        ([float("inf")], None),
    ],
)
def test_the_next_pod_is_due_so_long_after_the_last_one_ended(ends: list[float | None], due: float | None) -> None:
    assert next_pod_at(ends) == due


@pytest.mark.case("C025")
def test_the_moment_is_told_as_a_time_of_day_with_its_delay() -> None:
    ends = [MIDNIGHT, MIDNIGHT + 17]
    assert describe_next_pod(ends) == "the next pod is due at 00:00:37 UTC, 20 s after the last one ended"
    assert describe_next_pod(reversed(ends)) == describe_next_pod(ends)
    assert describe_next_pod([]) == ""


def test_an_end_that_nobody_saw_counts_and_has_no_time_of_day() -> None:
    assert describe_next_pod([MIDNIGHT, None]) == "the next pod is due 20 s after the last one ended"


@given(st.lists(st.none() | st.floats()))
def test_whatever_the_ends_are_the_next_pod_comes_after_all_of_them(ends: list[float | None]) -> None:
    due = next_pod_at(iter(ends))
    if due is not None:
        last = max(end for end in ends if end is not None)
        assert last <= due <= last + LONGEST_DELAY_S or abs(due) > 2**52
    assert bool(describe_next_pod(iter(ends))) == bool(ends)
