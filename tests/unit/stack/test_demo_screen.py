"""What the demo shows where standard output is no terminal, and on one."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from gpu_training.contract import Progress
from stack.screen import LiveScreen, PlainScreen

pytestmark = pytest.mark.unit


def test_without_a_terminal_a_thing_that_happens_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen()
    screen.tell("sandbox", "started")
    screen.tell("sandbox", "kubernetes: 1 of 900 packages built")
    screen.tell("sandbox", "kubernetes: 2 of 900 packages built")
    screen.finish("sandbox", 12.34)
    screen.progress(Progress(step=80, total=200, loss=0.3123))
    lines = [line[10:] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "sandbox: started",
        "sandbox: kubernetes: 1 of 900 packages built",
        "sandbox: done in 12.3 s",
        "train: progress 40% step 80/200 loss 0.3123",
    ]


@pytest.mark.parametrize("progress", [Progress(step=80, total=200, loss=0.3123), Progress(step=80, loss=0.3123)])
def test_on_a_terminal_there_is_one_picture_of_steps_and_progress(progress: Progress) -> None:
    output = io.StringIO()
    screen = LiveScreen(Console(file=output, force_terminal=True, width=100))
    with screen.live:
        screen.tell("sandbox", "building [1] of 900")
        screen.tell("data", "started")
        screen.finish("data", 1.5)
        screen.progress(progress)
        screen.say("watch it at http://127.0.0.1:1/dags/[x]")
    shown = output.getvalue()
    for text in ("building [1] of 900", "✓", "1.5 s", "step 80", "watch it at http://127.0.0.1:1/dags/[x]"):
        assert text in shown
