from __future__ import annotations

import pytest

from gpu_training.core.duration_text import moment, span, timestamp

pytestmark = pytest.mark.core

NOW = 1796066640.0  # 2026-11-30T19:24:00Z


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (90, "1 min 30 s"),
        (719, "11 min"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (36000 + 60, "10 h"),
        (86400, "24 h"),
        (2 * 86400 - 1, "47 h"),
        (2 * 86400 + 3 * 3600, "2 d 3 h"),
        (1e300, f"{int(1e300) // 86400} d"),
        (float("nan"), "an unknown time"),
        (float("inf"), "an unknown time"),
    ],
)
def test_a_span_is_told_in_its_largest_units(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (NOW + 57, "19:24:57 UTC"),
        (NOW - 86400, "2026-11-29 19:24:00 UTC"),
        (-1, "an unknown time"),
        (1e300, "an unknown time"),
        (float("nan"), "an unknown time"),
    ],
)
def test_a_moment_names_its_date_where_that_is_not_todays(seconds: float, text: str) -> None:
    assert moment(seconds, now=NOW) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(NOW + 0.9, "2026-11-30T19:24:00Z"), (None, None), (-1, None), (1e300, None), (float("nan"), None)],
)
def test_a_timestamp_is_for_machines(seconds: float | None, text: str | None) -> None:
    assert timestamp(seconds) == text
