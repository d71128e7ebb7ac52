"""From what was held to what was wasted, the table, and whether the goal is met. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.waste.meter import Hold, gpu_seconds
from bench.waste.program import HANG_STEP, STEP_S, STEPS
from bench.waste.rows import Column, Row, Useful

SHARE_GOAL = 0.2
"""Ours wastes at most this share of what the stock operator wastes by default, over all rows together."""
TOLERANCE_S = 1.0
"""GPU-seconds within which two figures of a row count as equal.

Uninterrupted trainings of one run differ by a tenth of it, which is told with every run, and each further pod costs a
few tenths to start and to end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Uninterrupted trainings of the same pod as bare Jobs, with no Airflow at all, in the same run.

    :param seconds: GPU-seconds that each held.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        return max(self.seconds) - min(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A row in a column, measured.

    :param held: GPU-seconds of all its pods.
    :param useful: those that were no waste.
    :param pods: how many held a GPU at some time.
    :param tries: of the Airflow task.
    :param state: the task's, at the end.
    :param cut: pods still held GPUs, or a Job would have made more, when the horizon came.
    """

    held: float
    useful: float
    pods: int
    tries: int
    state: str
    cut: bool

    @property
    def waste(self) -> float:
        return max(0.0, self.held - self.useful)


def useful_seconds(
    row: Row, holds: Sequence[Hold], baseline: float, *, until: float, ended_at: float | None, trained: bool
) -> float:
    """Give the GPU-seconds that were useful, never more than were held.

    :param until: the moment until which it was watched.
    :param ended_at: the moment at which a person ended it, in a row where one did.
    :param trained: whether the task succeeded.
    """
    held = gpu_seconds(list(holds), until)
    match row.useful:
        case Useful.TRAINING:
            useful = baseline if trained else 0.0
        case Useful.UNTIL_ENDED:
            useful = gpu_seconds(list(holds), until if ended_at is None else ended_at)
        case Useful.FIRST_ATTEMPT:
            useful = gpu_seconds(list(holds[:1]), until)
        case Useful.UNTIL_HANG:
            useful = baseline - (STEPS - HANG_STEP) * STEP_S
    return min(held, useful)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the table."""

    row: Row
    figures: Mapping[Column, Figure]

    @property
    def share(self) -> float | None:
        """What ours wastes of what stock wastes; None where stock wastes nothing that could be measured."""
        ours, stock = self.figures[Column.OURS].waste, self.figures[Column.STOCK].waste
        return _ratio(ours, stock)

    @property
    def met(self) -> bool:
        """Ours wastes no more than either of the others."""
        ours, *others = (self.figures[column].waste for column in Column)
        return ours <= min(others) + TOLERANCE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole table."""

    lines: tuple[Line, ...]
    baseline: Baseline

    def total(self, column: Column) -> float:
        return sum(line.figures[column].waste for line in self.lines)

    def total_of_ended(self, column: Column) -> float:
        """Give the total of the rows that had ended in all columns: the others waste as long as they are watched."""
        ended = (line for line in self.lines if not any(figure.cut for figure in line.figures.values()))
        return sum(line.figures[column].waste for line in ended)

    @property
    def share(self) -> float | None:
        return _ratio(self.total(Column.OURS), self.total(Column.STOCK))

    @property
    def met(self) -> bool:
        in_total = self.share is None or self.share <= SHARE_GOAL
        return in_total and all(line.met for line in self.lines)

    def text(self) -> str:
        """Give the table, and how to read it."""
        rows = [("row", *Column, "ours/stock", "goal")]
        for line in self.lines:
            cells = (_cell(line.row, line.figures[column]) for column in Column)
            rows.append((line.row.title, *cells, _share(line.share), _met(line.met)))
        ended = [self.total_of_ended(column) for column in Column]
        rows.append(("rows that ended", *(f"{each:.1f}" for each in ended), _share(_ratio(*ended[:2])), ""))
        totals = (f"{self.total(column):.1f}" for column in Column)
        rows.append(("all rows", *totals, _share(self.share), _met(self.met)))
        widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        baseline = self.baseline
        return "\n".join(
            [
                *lines,
                f"wasted GPU-seconds; of {STEPS} steps of {STEP_S:g} s, an uninterrupted training held "
                f"{baseline.median:.1f} (median of {len(baseline.seconds)}, which differ by {baseline.spread:.1f})",
                "never trained: no training came to its end, so all that was held is wasted; +: it went on at the end",
                f"goal: ours at most {SHARE_GOAL:.0%} of stock over all rows, and in no row more than {TOLERANCE_S:g} "
                f"GPU-second above either: {_met(self.met)}",
            ]
        )

    def document(self) -> dict[str, Any]:
        """Give all figures as plain data."""
        return {
            "rows": {
                line.row.name: {
                    "what": line.row.what,
                    "useful": line.row.useful,
                    "columns": {
                        column: {**_rounded(asdict(figure)), "waste": round(figure.waste, 2)}
                        for column, figure in line.figures.items()
                    },
                    "share": line.share,
                    "met": line.met,
                }
                for line in self.lines
            },
            "total": {column: round(self.total(column), 2) for column in Column},
            "total_of_ended": {column: round(self.total_of_ended(column), 2) for column in Column},
            "share": self.share,
            "baseline": [round(each, 2) for each in self.baseline.seconds],
            "tolerance": TOLERANCE_S,
            "goal": SHARE_GOAL,
            "met": self.met,
        }


def _cell(row: Row, figure: Figure) -> str:
    never = row.useful is Useful.TRAINING and figure.state != "success"
    return f"{figure.waste:.1f}{'+' if figure.cut else ''}{', never trained' if never else ''}"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _ratio(ours: float, stock: float) -> float | None:
    return ours / stock if stock > TOLERANCE_S else None


def _met(met: bool) -> str:
    return "met" if met else "MISSED"


def _rounded(values: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 2) if isinstance(value, float) else value for name, value in values.items()}
