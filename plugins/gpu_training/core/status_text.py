"""The status of trainings as lines for a person at a terminal: a block a training, what hurts most first.

What a cluster says is shown without its control characters: a terminal would obey them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gpu_training.contract import Progress
from gpu_training.core.attempts import Attempt
from gpu_training.core.clock_readings import Reading
from gpu_training.core.duration_text import moment, span
from gpu_training.core.naming import TaskTry
from gpu_training.core.pending_cause import Cure
from gpu_training.core.pending_report import GpuHolder, Report
from gpu_training.core.progress_text import render
from gpu_training.core.resume import repeated_steps
from gpu_training.core.status import Overview, TrainingStatus

_LABEL: Final = 9
_INDENT: Final = 2
_LONGEST_TABLE: Final = 12
"""Rows of a table; the JSON document has all of them."""
_LONGEST_WORDS: Final = 600

_CURES: Final = {
    Cure.NEVER: "no waiting cures it",
    Cure.WAITING: "waiting may cure it",
    Cure.TRANSIENT: "it usually heals by itself within minutes",
}


def overview_lines(overview: Overview, *, width: int | None = None) -> list[str]:
    """Give the lines for all trainings, and for what could not be looked at.

    :param width: columns that a line may take; None for any number.
    """
    lines: list[str] = []
    for status in overview.trainings:
        lines += [*block(status, overview.at, width=width), ""]
    # What hides something of one training hides it of all: it is said once.
    around = [reason for status in overview.trainings if status.pending is not None for reason in status.pending.hidden]
    if hidden := tuple(dict.fromkeys((*overview.hidden, *around))):
        return [*lines, *_field("hidden", hidden, width, indent=0)]
    return lines[:-1]


def block(status: TrainingStatus, now: float, *, width: int | None = None) -> list[str]:
    """Give the lines for one training.

    :param now: seconds since 1970.
    :param width: columns that a line may take; None for any number.
    """
    lines = [_head(status, now)]
    for label, texts in _fields(status, now):
        lines += _field(label, texts, width)
    return lines


def _head(status: TrainingStatus, now: float) -> str:
    since = ""
    if status.since is not None:
        ago, at = span(now - status.since), moment(status.since, now=now)
        since = f" {ago} ago, at {at}" if status.ended else f" for {ago}, since {at}"
    name = " ".join(word for word in (status.model or "?", status.data_version) if word)
    return _printable(f"{name}: {status.phase.replace('_', ' ')}{since}")


def _fields(status: TrainingStatus, now: float) -> Iterator[tuple[str, Sequence[str]]]:
    yield "job", [f"{status.namespace}/{status.job}, generation {status.generation}, deployment {status.deployment}"]
    if status.pending is not None:
        yield from _why(status.pending, now)
    elif status.detail:
        yield "what" if status.verdict is None else "why", [_with_category(status)]
    if status.verdict is not None:
        yield "remedy", [f"{status.verdict.remedy} ({status.verdict.owner})"]
    if status.progress is not None:
        yield "progress", [_progress(status, status.progress, now)]
    if status.clocks:
        yield "clocks", [", ".join(_clock(reading) for reading in status.clocks)]
    if status.attempts:
        yield "attempts", [_attempt(attempt, status.attempts) for attempt in status.attempts]
    yield "GPU time", [f"{_amount(status.gpu_seconds)} GPU-seconds"]
    if not status.ended:
        yield "waited by", _waiters(status)
    if status.hidden:
        yield "hidden", status.hidden


def _with_category(status: TrainingStatus) -> str:
    return status.detail if status.verdict is None else f"{status.verdict.category}: {status.detail}"


def _why(report: Report, now: float) -> Iterator[tuple[str, Sequence[str]]]:
    if report.subject:
        yield "what", [report.subject]
    yield "why", [f"{report.cause}: {report.summary}"]
    yield "cure", [_CURES[report.cure]]
    if report.remedy:
        yield "remedy", [report.remedy]
    if report.nearest:
        yield "nearest", [report.nearest]
    if report.nodes:
        yield "nodes", _table([(str(node.count), node.reason) for node in report.nodes], right=(0,))
    if report.holders:
        head = ("GPUS", "NODE", "AT THE LATEST UNTIL", "WHO")
        yield "held by", _table([head, *(_holder(holder, now) for holder in report.holders)], right=(0,))
    if report.words and report.words not in report.summary:
        yield "words", [report.words]


def _holder(holder: GpuHolder, now: float) -> tuple[str, ...]:
    until = "no limit"
    if holder.ends_by is not None:
        until = f"{moment(holder.ends_by, now=now)}, in {span(holder.ends_by - now)}"
    return str(holder.gpus), holder.node, until, holder.who


def _progress(status: TrainingStatus, progress: Progress, now: float) -> str:
    # What does not run has no time left that could be told.
    told = progress if status.progresses else replace(progress, throughput=None)
    ago = f"; {span(now - status.progress_at)} ago" if status.progress_at is not None else ""
    return f"{'' if status.progresses else 'was at '}{render(told).removeprefix('progress ')}{ago}"


def _clock(reading: Reading) -> str:
    limit = "without a limit" if reading.limit is None else f"of {span(reading.limit)}"
    return f"{reading.clock} {span(reading.elapsed)} {limit}"


def _attempt(attempt: Attempt, attempts: Sequence[Attempt]) -> str:
    seconds = f"{'about ' if attempt.estimated else ''}{_amount(attempt.gpu_seconds)} GPU-seconds"
    end = "lives" if attempt.ended_at is None else "succeeded"
    if attempt.verdict is not None:
        end = f"{attempt.verdict.category}: {attempt.verdict.summary}"
    return (
        f"{attempt.number}  {attempt.pod} on {attempt.node or 'no node'}, {seconds}, {_steps(attempt, attempts)}{end}"
    )


def _steps(attempt: Attempt, attempts: Sequence[Attempt]) -> str:
    """Give the steps that an attempt did, as far as it told them, and how many of them were done before."""
    first, last, checkpoint = attempt.first_step, attempt.last_step, attempt.checkpoint_step
    words = ""
    if first is not None:
        # A program may report the step of the checkpoint that it goes on from.
        words = f"steps {first} to {last}, " if last is not None and first <= last else f"from step {first}, "
    elif last is not None:
        words = f"to step {last}, "
    if again := repeated_steps(attempt, attempts):
        words += f"{again} of them again, "
    return words + (f"checkpoint {checkpoint}, " if checkpoint is not None else "")


def _amount(seconds: float) -> str:
    return f"{seconds:.1f}".removesuffix(".0")


def _waiters(status: TrainingStatus) -> list[str]:
    if status.waiters is None:
        return ["unknown: somebody has edited the Job's annotation"]
    return [_waiter(waiter) for waiter in status.waiters] or ["nobody"]


def _waiter(waiter: TaskTry) -> str:
    index = f"[{waiter.map_index}]" if waiter.map_index >= 0 else ""
    return f"{waiter.dag_id}, run {waiter.run_id}, task {waiter.task_id}{index}, try {waiter.try_number}"


def _table(rows: Sequence[tuple[str, ...]], *, right: tuple[int, ...] = ()) -> list[str]:
    """Give rows with their columns one below the other.

    :param right: columns that are aligned to the right.
    """
    shown = [tuple(_printable(cell) for cell in row) for row in rows[:_LONGEST_TABLE]]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if n in right else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]
    return [*lines, f"and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else lines


def _field(label: str, texts: Sequence[str], width: int | None, *, indent: int = _INDENT) -> list[str]:
    """Give the lines of a field: its label once, its texts below each other."""
    first, rest = f"{'':{indent}}{label:{_LABEL}} ", " " * (indent + _LABEL + 1)
    lines: list[str] = []
    for n, text in enumerate(texts):
        head, words = first if n == 0 else rest, _printable(text, longest=_LONGEST_WORDS)
        if width is None or len(head) + len(words) <= width or width < len(rest) + _LABEL:
            lines.append(head + words)
        else:
            lines += textwrap.wrap(words, width, initial_indent=head, subsequent_indent=rest, break_on_hyphens=False)
    return lines


def _printable(text: str, *, longest: int | None = None) -> str:
    """Give a text on one line, without control characters and of bounded length."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if longest is None or len(shown) <= longest else f"{shown[: longest - 1]}…"
