"""How often progress is told: soon while it is young or there is news, seldom when it has run for long."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.contract import Progress
from gpu_training.core.progress_pace import SOONEST_S, Pace

pytestmark = pytest.mark.core


def moments(seconds: int, every: float = 0.5, *, checkpoint_every: int | None = None) -> list[float]:
    """Give when progress was told of a training that reports so often, for so long."""
    pace, told = Pace(), []
    for n in range(int(seconds / every)):
        checkpoint = None if checkpoint_every is None else n // checkpoint_every
        progress, now = Progress(step=n, total=10**9, checkpoint_step=checkpoint), n * every
        if pace.seconds_until_due(progress, "p", now) == 0:
            pace.told(progress, "p", now)
            told.append(now)
    return told


def test_the_first_is_told_at_once_and_then_every_two_seconds() -> None:
    assert moments(20) == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]


def test_a_day_of_training_is_told_in_a_line_a_minute() -> None:
    told = moments(24 * 3600, every=5.0)
    assert len([at for at in told if at < 1800]) < 150
    assert max(b - a for a, b in pairwise(told)) <= 65
    assert len(told) < 1600


def test_a_new_checkpoint_is_told_soon_however_long_it_has_run() -> None:
    told = moments(7200, every=5.0, checkpoint_every=6)
    late = [at for at in told if at > 3700]
    assert {round(b - a) for a, b in pairwise(late)} == {30}


def test_the_last_step_and_another_pod_are_told_soon() -> None:
    pace, begin = Pace(), Progress(step=1, total=10)
    assert pace.seconds_until_due(begin, "p", 0.0) == 0
    for now in (0.0, 3600.0):
        pace.told(begin, "p", now)
    assert pace.seconds_until_due(Progress(step=2, total=10), "p", 3600.0) == 60
    assert pace.seconds_until_due(Progress(step=10, total=10), "p", 3600.0) == SOONEST_S
    assert pace.seconds_until_due(Progress(step=1, total=10), "q", 3600.0) == SOONEST_S


@pytest.mark.parametrize("pods", [2, 8])
def test_pods_that_take_turns_are_told_as_seldom_as_one(pods: int) -> None:
    pace, told = Pace(), 0
    for n in range(24 * 3600):
        progress, pod, now = (
            Progress(step=n, total=10**9, checkpoint_step=n // 100 - n % pods),
            f"p{n % pods}",
            float(n),
        )
        if pace.seconds_until_due(progress, pod, now) == 0:
            pace.told(progress, pod, now)
            told += 1
    assert told < 1600 + 24 * 36


def test_what_is_told_is_not_told_again_and_nothing_is_told_of_nothing() -> None:
    pace, progress = Pace(), Progress(step=1)
    assert pace.seconds_until_due(None, None, 0.0) is None
    pace.told(progress, "p", 0.0)
    assert pace.seconds_until_due(progress, "p", 1e6) is None


@given(st.lists(st.tuples(st.floats(0, 1e4), st.integers(0, 5), st.sampled_from("pq")), max_size=30))
def test_no_two_are_told_within_two_seconds_and_none_waits_for_more_than_a_minute(
    reports: list[tuple[float, int, str]],
) -> None:
    pace, now, last = Pace(), 0.0, float("-inf")
    for passed, step, pod in reports:
        now += passed
        progress = Progress(step=step, total=5)
        due = pace.seconds_until_due(progress, pod, now)
        assert due is None or 0 <= due <= 60
        if due == 0:
            assert now >= last + SOONEST_S
            pace.told(progress, pod, now)
            last = now
