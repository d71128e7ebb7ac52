"""The log of a task as Airflow's API gives it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.task_log import log_lines

pytestmark = pytest.mark.core

SOURCES = [
    {"event": "::group::Log message source details"},
    {"event": "/logs/attempt=1.log"},
    {"event": "::endgroup::"},
]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ([], []),
        (["plain text"], ["plain text"]),
        ([{"timestamp": None, "event": "a"}, {"event": "b", "level": "info"}], ["a", "b"]),
        ([*SOURCES, {"event": "a"}], ["a"]),
        ([*SOURCES, {"event": "::group::Mine"}, {"event": "::endgroup::"}], ["::group::Mine", "::endgroup::"]),
        ([SOURCES[0], {"event": "never closed"}], ["::group::Log message source details", "never closed"]),
        (
            [{"event": "failed", "error_detail": [{"exc_type": "ValueError", "exc_value": "no", "frames": []}]}],
            ["failed", "ValueError: no"],
        ),
        ([{"event": "failed", "error_detail": "not a list"}, {}, 7], ["failed", "", "7"]),
    ],
)
def test_entries_become_lines_without_the_group_of_sources(content: list[object], lines: list[str]) -> None:
    assert log_lines(content) == lines


values = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)
entries = st.fixed_dictionaries({}, optional={"event": values, "error_detail": values})


@given(st.lists(entries | values))
def test_no_content_makes_the_reader_fail(content: list[object]) -> None:
    assert all(isinstance(line, str) for line in log_lines(content))
