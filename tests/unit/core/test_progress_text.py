"""Progress as a line of the task log."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.contract import Progress
from gpu_training.core.progress_text import parse, percent_of, render

pytestmark = pytest.mark.core

LINES = [
    (
        Progress(step=80, total=200, loss=0.31234, throughput=10.0, checkpoint_step=60),
        "progress 40% step 80/200 loss 0.3123 eta 12 s checkpoint 60",
    ),
    (
        Progress(step=80, total=200, loss=0.5, throughput=0.01, checkpoint_step=60),
        "progress 40% step 80/200 loss 0.5 eta 3 h 20 min checkpoint 60",
    ),
    (Progress(step=100, total=200, throughput=0.0001), "progress 50% step 100/200 eta 11 d"),
    (Progress(step=100, total=200, throughput=1 / 3), "progress 50% step 100/200 eta 5 min"),
    (Progress(step=0, total=200), "progress 0% step 0/200"),
    (Progress(step=199, total=200, throughput=100.0), "progress 99% step 199/200 eta 1 s"),
    (Progress(step=200, total=200, throughput=100.0, loss=12345678.0), "progress 100% step 200/200 loss 1.235e+07"),
    (Progress(step=7), "progress step 7"),
    (Progress(step=7, loss=-0.5, checkpoint_step=0), "progress step 7 loss -0.5 checkpoint 0"),
    (Progress(step=9, total=5), "progress 100% step 9/5"),
    (Progress(step=1, total=5, throughput=1e-300, loss=math.nan), "progress 20% step 1/5"),
]


@pytest.mark.parametrize(("progress", "line"), LINES)
def test_a_progress_is_rendered_as_one_readable_line(progress: Progress, line: str) -> None:
    assert render(progress) == line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "progress",
        "progress 40%",
        "progress 40% step x/200",
        "some progress 40% step 80/200",
        "progress 40% step 80/200 loss nan",
        "progress 40% step 80/200 eta 12",
        "progress 40% step 80/200 eta 1 h 12",
        "progress 40% step 80/200 eta 12 weeks",
        "progress 40% step 80/200 loss ...",
        "progress 40% step 80/200 and more",
        "progress step " + "9" * 5000,
    ],
)
def test_any_other_line_is_no_progress(line: str) -> None:
    assert parse(line) is None


counts = st.integers(min_value=0, max_value=2**63 - 1)
progresses = st.builds(
    Progress,
    step=counts,
    total=counts,
    loss=st.none() | st.floats(),
    throughput=st.none() | st.floats(min_value=0, allow_nan=False),
    checkpoint_step=st.none() | counts,
)


@given(progresses)
def test_what_was_rendered_is_read_back(progress: Progress) -> None:
    read = parse(render(progress))
    assert read is not None
    assert (read.step, read.total, read.checkpoint_step) == (progress.step, progress.total, progress.checkpoint_step)
    if progress.loss is not None and abs(progress.loss) < 1e300:
        assert read.loss == pytest.approx(progress.loss, rel=1e-3)
    elif progress.loss is None or not math.isfinite(progress.loss):
        assert read.loss is None
    if progress.seconds_left and 1 <= progress.seconds_left < 1e6:
        # Two units are told: at ten of the larger one, up to nearly one of it is left out.
        assert read.seconds_left == pytest.approx(progress.seconds_left, rel=0.1, abs=0.6)


@given(progresses)
def test_what_is_shown_of_a_line_that_was_read_is_that_line(progress: Progress) -> None:
    """A run that is followed from afar shows what the task log says."""
    read = parse(render(progress))
    assert read is not None
    assert render(read) == render(progress)


def test_a_line_of_an_earlier_release_tells_its_time_in_seconds() -> None:
    read = parse("progress 40% step 80/200 eta 7500 s")
    assert read is not None
    assert read.seconds_left == pytest.approx(7500)


@pytest.mark.parametrize(("step", "percent"), [(0, 0), (199, 99), (200, 100), (201, 100)])
def test_the_percentage_is_of_what_is_done_for_sure(step: int, percent: int) -> None:
    assert percent_of(Progress(step=step, total=200)) == percent
    assert percent_of(Progress(step=step)) is None


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    parse(text)
    parse("progress " + text)
