"""Progress lines are neither too many nor too few, and a result document is left where it is looked for."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from gpu_training.contract import Progress, parse_progress, parse_result
from trainer.report import Attempt, ProgressReport, leave_result

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
        report = ProgressReport(first_step=steps.start, total=steps.stop - 1, clock=clock)
        for step in steps:
            clock.now += seconds_a_step
            report.step_done(step, loss=1.0, checkpoint_step=None, at_checkpoint=step in checkpoints)
    return [progress for line in output.getvalue().splitlines() if (progress := parse_progress(line))]


def test_fast_training_prints_first_last_checkpoints_and_about_one_line_a_second() -> None:
    lines = printed(range(1, 41), seconds_a_step=0.125, checkpoints=(20,))
    assert [line.step for line in lines] == [1, 9, 17, 20, 28, 36, 40]
    assert {line.throughput for line in lines} == {8.0}


def test_slow_training_prints_every_step() -> None:
    assert [line.step for line in printed(range(1, 5), seconds_a_step=30)] == [1, 2, 3, 4]


def test_resumed_training_goes_on_counting_and_tells_its_own_speed() -> None:
    lines = printed(range(101, 103), seconds_a_step=0.5)
    assert [(line.step, line.total, line.throughput) for line in lines] == [(101, 102, 2.0), (102, 102, 2.0)]


def test_result_document_is_written_where_the_operator_says(tmp_path: Path) -> None:
    target = tmp_path / "termination-log"
    leave_result(Attempt(last_step=7).result(error="interrupted"), {"GPU_TRAINING_TERMINATION_LOG": str(target)})
    assert parse_result(target.read_text()) == Attempt(last_step=7).result(error="interrupted")


def test_place_that_can_not_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "absent" / "termination-log"
    leave_result(Attempt(metrics={"rmse": 1.5}).result(error=None), {"GPU_TRAINING_TERMINATION_LOG": str(target)})
    assert f"{target}: the result document was not written" in caplog.text
    assert parse_result(capsys.readouterr().out.removeprefix("result document: ")).metrics == {"rmse": 1.5}


def test_outside_of_a_container_nothing_is_made_in_dev(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "termination-log"
    monkeypatch.setattr("trainer.report.TERMINATION_MESSAGE_PATH", str(target))
    leave_result(Attempt().result(error=None), {})
    assert not target.exists()
    assert f"{target} does not exist" in caplog.text
    target.touch()
    leave_result(Attempt().result(error=None), {})
    assert parse_result(target.read_text()) == Attempt().result(error=None)
