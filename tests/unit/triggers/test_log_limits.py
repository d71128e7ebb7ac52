"""What a training may write into its task log, by the options of the section [gpu_training]."""

from __future__ import annotations

import pytest
from tests.unit.triggers.one_job import Log

from gpu_training.core.log_allowance import Limits
from gpu_training.triggers.log_limits import limits_of

pytestmark = pytest.mark.unit


def option(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"AIRFLOW__GPU_TRAINING__{name.upper()}", value)


def test_without_options_the_defaults_hold() -> None:
    log = Log()
    assert limits_of(log) == Limits()
    assert log.warnings == []


@pytest.mark.parametrize(
    ("name", "value", "limits"),
    [
        ("log_lines_per_second", "50", Limits(lines_per_second=50)),
        ("log_burst_lines", " 7 ", Limits(burst_lines=7)),
        ("log_kib_per_second", "1", Limits(bytes_per_second=1024)),
        ("log_burst_kib", "64", Limits(burst_bytes=64 * 1024)),
        ("log_tail_lines", "3", Limits(tail_lines=3)),
    ],
)
def test_each_limit_has_an_option(monkeypatch: pytest.MonkeyPatch, name: str, value: str, limits: Limits) -> None:
    option(monkeypatch, name, value)
    assert limits_of(Log()) == limits


@pytest.mark.parametrize("name", ["log_lines_per_second", "log_burst_kib", "log_tail_lines"])
@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "9" * 30, "²"])
def test_a_value_that_is_none_is_a_warning_and_the_default_holds(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    option(monkeypatch, name, value)
    log = Log()
    assert limits_of(log) == Limits()
    (warning,) = log.warnings
    assert f"[gpu_training] {name} is {value!r}; a whole number from " in warning


def test_a_burst_has_room_for_all_but_the_longest_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    option(monkeypatch, "log_burst_kib", "63")
    log = Log()
    assert limits_of(log) == Limits()
    assert "from 64 to" in log.warnings[0]
