"""Progress lines are neither too many nor too few, and the first comes before the first step."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import pytest

from gpu_training.attempt import ProgressReport
from gpu_training.contract import Progress, parse_progress

pytestmark = pytest.mark.trainer


class Clock:
    """A clock that stands still between ticks."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def printed(steps: range, *, seconds_a_step: float, checkpoints: tuple[int, ...] = ()) -> list[Progress]:
    clock, output = Clock(), io.StringIO()
    with redirect_stdout(output):
        start = steps.start - 1
        report = ProgressReport(
            first_step=steps.start, total=steps.stop - 1, checkpoint_step=start or None, clock=clock
        )
        for step in steps:
            clock.now += seconds_a_step
            report.step_done(step, loss=1.0, checkpoint_step=None, at_checkpoint=step in checkpoints)
    return [progress for line in output.getvalue().splitlines() if (progress := parse_progress(line))]


def test_where_an_attempt_begins_is_told_before_its_first_step() -> None:
    assert printed(range(41, 41), seconds_a_step=1) == [Progress(step=40, total=40, checkpoint_step=40, first_step=41)]
    assert printed(range(1, 1), seconds_a_step=1) == [Progress(step=0, first_step=1)]


def test_fast_training_prints_start_first_last_checkpoints_and_about_one_line_a_second() -> None:
    start, *lines = printed(range(1, 41), seconds_a_step=0.125, checkpoints=(20,))
    assert start.step == 0
    assert [line.step for line in lines] == [1, 9, 17, 20, 28, 36, 40]
    assert {line.throughput for line in lines} == {8.0}


def test_slow_training_prints_every_step() -> None:
    assert [line.step for line in printed(range(1, 5), seconds_a_step=30)] == [0, 1, 2, 3, 4]


def test_resumed_training_goes_on_counting_and_tells_its_own_speed() -> None:
    lines = printed(range(101, 103), seconds_a_step=0.5)
    assert [(line.step, line.total, line.throughput) for line in lines] == [
        (100, 102, None),
        (101, 102, 2.0),
        (102, 102, 2.0),
    ]
