"""What a demo shows: on a terminal one picture that changes, elsewhere one line for each thing that happens."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gpu_training.contract import Progress
from gpu_training.core import progress_text

_QUIET_S = 15.0
_BAR_WIDTH = 40


class Screen(Protocol):
    """Where steps and a training are shown; a :class:`stack.steps.Listener`, too."""

    def tell(self, step: str, state: str) -> None:
        """A step began or got on."""

    def finish(self, step: str, seconds: float) -> None:
        """A step succeeded."""

    def progress(self, progress: Progress) -> None:
        """The training got on."""

    def say(self, text: str) -> None:
        """Something for the reader that stays."""


@contextmanager
def open_screen() -> Iterator[Screen]:
    """Give the screen that suits standard output; afterwards it can be printed to again."""
    console = Console()
    if not console.is_terminal:
        yield PlainScreen()
        return
    screen = LiveScreen(console)
    with screen.live:
        yield screen


class PlainScreen:
    """Lines, each with the seconds since the beginning."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told: dict[str, tuple[str, float]] = {}

    def tell(self, step: str, state: str) -> None:
        now, subject = time.monotonic(), state.partition(" ")[0]
        before, when = self._told.get(step, ("", 0.0))
        # A build tells how far it is every second: enough for a terminal, too much for a log.
        if subject != before or now - when >= _QUIET_S:
            self._told[step] = (subject, now)
            self.say(f"{step}: {state}")

    def finish(self, step: str, seconds: float) -> None:
        self.say(f"{step}: done in {seconds:.1f} s")

    def progress(self, progress: Progress) -> None:
        self.say(f"train: {progress_text.render(progress)}")

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self._began:6.1f} s  {text}", flush=True)


class LiveScreen:
    """One picture: a row for each step, and below it the bar of the training."""

    def __init__(self, console: Console) -> None:
        self._rows: dict[str, RenderableType] = {}
        self._states: dict[str, str] = {}
        self._bar: RenderableType | None = None
        self.live = Live(console=console, get_renderable=self._render, refresh_per_second=8)

    def tell(self, step: str, state: str) -> None:
        self._states[step] = state
        self._rows.setdefault(step, Spinner("dots", style="cyan"))

    def finish(self, step: str, seconds: float) -> None:
        self._states[step] = f"{seconds:.1f} s"
        self._rows[step] = Text("✓", style="green")

    def progress(self, progress: Progress) -> None:
        text = Text(progress_text.render(progress).removeprefix("progress "))
        if progress.fraction is None:
            self._bar = text
            return
        row = Table.grid(padding=(0, 2))
        row.add_row(ProgressBar(total=1.0, completed=progress.fraction, width=_BAR_WIDTH), text)
        self._bar = row

    def say(self, text: str) -> None:
        self.live.console.print(text, highlight=False, markup=False)

    def _render(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        # Copied, since other threads add rows while this one draws.
        for step, mark in list(self._rows.items()):
            rows.add_row(mark, step, Text(self._states[step], style="dim"))
        return Group(rows, self._bar) if self._bar else rows


def print_table(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values below a title."""
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows:
        table.add_row(name, value)
    # As wide as its content where the output is no terminal: a line broken at 80 columns can not be searched.
    Console(width=None if sys.stdout.isatty() else 200).print(table)
