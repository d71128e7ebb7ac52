"""Progress as a line of the task log."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.contract import Progress
from gpu_training.core.progress_text import parse, render

pytestmark = pytest.mark.core

LINES = [
    (
        Progress(step=80, total=200, loss=0.31234, throughput=10.0, checkpoint_step=60),
        "progress 40% step 80/200 loss 0.3123 eta 12 s checkpoint 60",
    ),
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
        assert read.seconds_left == pytest.approx(progress.seconds_left, abs=0.6)


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    parse(text)
    parse("progress " + text)
