"""Cells of the matrix on one stack: as many at once as go together, and every cell's verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
from tests.stack.faults import victims
from tests.stack.faults.deaths import RUN_S, CellRun, NotReached
from tests.stack.faults.matrix import Cell, Point, Strike
from tests.stack.faults.room import Room
from tests.stack.faults.verdicts import Figures, faults_of

from sandbox.errors import SandboxError

ALONE_AT_ONCE = 6
TOGETHER_AT_ONCE = 6
TOLERANCE_S = RUN_S / 2

_IN_THE_WAY = (NotReached, victims.TooLate, SandboxError, httpx.HTTPError)
_EARLY = (Point.BEFORE_CREATE, Point.BEFORE_DEFER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a cell.

    :param faults: what the run did wrong; none when it kept the promise.
    :param repeated: attempts more than in the run in which nobody died. One is promised not to be more than what was
        in flight; none at all is better.
    """

    cell: Cell
    figures: Figures
    faults: tuple[str, ...]
    repeated: int

    @property
    def holds(self) -> bool:
        return not self.faults

    def line(self) -> str:
        """Give the line of a report."""
        figures = self.figures
        kept = f"holds, {self.repeated} repeated" if self.repeated > 0 else "holds"
        said = kept if self.holds else "FAILS: " + "; ".join(self.faults)
        return (
            f"{self.cell.name:<34} {figures.gpu_seconds:6.1f} GPU-s  {figures.attempts} attempts  "
            f"{len(figures.jobs)} Jobs  {figures.seconds:4.0f} s  {said}"
        )


class Campaign:
    """Runs cells, and those in which nobody dies that they are compared with.

    :param tell: is given each verdict as soon as it is known.
    """

    def __init__(self, room: Room, tell: Callable[[Verdict], None] = lambda _: None) -> None:
        self._room = room
        self._tell = tell
        self._figures: dict[Cell, Figures] = {}

    def run(self, cells: Sequence[Cell]) -> list[Verdict]:
        """Give the verdict of each cell, in their order, after those of the runs in which nobody died."""
        undisturbed = list(dict.fromkeys(cell.uninterrupted() for cell in cells))
        self._told: dict[Cell, Verdict] = {}
        with ThreadPoolExecutor(ALONE_AT_ONCE) as pool:
            # These come first, and so are known before any other is judged.
            alone = dict.fromkeys([*undisturbed, *(cell for cell in cells if cell.strike is Strike.ALONE)])
            for cell, figures in pool.map(self._run_alone, alone):
                self._take(cell, figures)
        for kind in (Strike.TRIGGER_PROCESS, Strike.TRIGGERER, Strike.SCHEDULER):
            struck = [cell for cell in cells if cell.strike is kind]
            for together in batched_evenly(struck, TOGETHER_AT_ONCE):
                for cell, figures in self._run_together(together, kind):
                    self._take(cell, figures)
        return [self._told[cell] for cell in dict.fromkeys([*undisturbed, *cells])]

    def _take(self, cell: Cell, figures: Figures) -> None:
        self._figures[cell] = figures
        uninterrupted = None if cell.victim is None else self._figures[cell.uninterrupted()]
        faults = faults_of(cell, figures, uninterrupted, tolerance_s=TOLERANCE_S)
        repeated = figures.attempts - (uninterrupted or figures).attempts
        self._told[cell] = Verdict(cell=cell, figures=figures, faults=tuple(faults), repeated=repeated)
        self._tell(self._told[cell])

    def _run_alone(self, cell: Cell) -> tuple[Cell, Figures]:
        run = CellRun(self._room, cell)
        try:
            run.reach()
            if cell.victim is not None:
                run.kill()
            run.release()
            return cell, run.finish()
        except _IN_THE_WAY as error:
            return cell, run.give_up(str(error) or repr(error))
        finally:
            run.close()

    def _run_together(self, cells: Sequence[Cell], kind: Strike) -> Iterator[tuple[Cell, Figures]]:
        """Bring runs to their points, kill once, and let all go on."""
        runs = [CellRun(self._room, cell) for cell in cells]
        with ThreadPoolExecutor(len(runs)) as pool:
            # A client whose request is held up waits for a minute or so: what is held early begins late.
            late = [run for run in runs if run.cell.point not in _EARLY]
            early = [run for run in runs if run.cell.point in _EARLY]
            errors = [*pool.map(_reach, late), *pool.map(_reach, early)]
            runs = [*late, *early]
            for run in runs:
                run.note_strike()
            victims.strike(self._room.stack, kind)
            yield from pool.map(_go_on, runs, errors)


def _reach(run: CellRun) -> str:
    try:
        run.reach()
    except _IN_THE_WAY as error:
        return str(error) or repr(error)
    return ""


def _go_on(run: CellRun, error: str) -> tuple[Cell, Figures]:
    try:
        if error:
            return run.cell, run.give_up(error)
        run.release()
        return run.cell, run.finish()
    finally:
        run.close()


def batched_evenly(cells: Sequence[Cell], at_most: int) -> Iterator[Sequence[Cell]]:
    """Cut cells into parts of about the same size."""
    if cells:
        parts = -(-len(cells) // at_most)
        yield from (cells[part::parts] for part in range(parts))
