"""`make faults`: the matrix on a stack of its own, a line a cell.

`python -m tests.stack.faults.run [--dozen] [--list] [CELL …]`, a CELL being `victim.point.outcome`, with `*` for any,
or one of these words. Exits with 1 when a cell does not hold, with 2 when no cell is named so.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.stack.faults.campaign import TOLERANCE_S, Campaign, Verdict
from tests.stack.faults.matrix import DOZEN, MATRIX, Cell, choose
from tests.stack.faults.room import Room

from stack.checkout import ROOT
from stack.heartbeats import SHORT
from stack.lifecycle import Stack
from stack.screen import PlainScreen
from stack.steps import Steps

REPORT = ROOT / "build" / "faults.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("cells", nargs="*", metavar="CELL")
    parser.add_argument("--dozen", action="store_true", help="only those that `make test` runs")
    parser.add_argument("--list", action="store_true", help="say which cells these are, and run none")
    asked = parser.parse_args()
    try:
        cells = choose(asked.cells, DOZEN if asked.dozen else MATRIX)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if asked.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    started = time.monotonic()
    verdicts = _run(cells)
    write_report(verdicts)
    struck = [verdict for verdict in verdicts if verdict.cell.victim is not None]
    held = sum(verdict.holds for verdict in struck)
    repeated = sum(max(0, verdict.repeated) for verdict in struck)
    seconds = time.monotonic() - started
    print(f"{held} of {len(struck)} cells hold, {repeated} attempts repeated, in {seconds:.0f} s; see {REPORT.name}")
    return 0 if all(verdict.holds for verdict in verdicts) else 1


def _run(cells: Sequence[Cell]) -> list[Verdict]:
    with tempfile.TemporaryDirectory(prefix="gpu-training-faults-") as folder:
        stack = Stack.up(Path(folder) / "stack", Steps(PlainScreen()), owner_pid=os.getpid(), heartbeats=SHORT)
        try:
            room = Room(stack, Path(folder) / "cells")
            room.open()
            try:
                return Campaign(room, lambda verdict: print(verdict.line(), flush=True)).run(cells)
            finally:
                room.close()
        finally:
            stack.down()


def write_report(verdicts: Sequence[Verdict]) -> None:
    """Keep all figures where a program can read them."""
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    cells = [
        {
            "cell": verdict.cell.name,
            "holds": verdict.holds,
            "faults": verdict.faults,
            "repeated": verdict.repeated,
            **asdict(verdict.figures),
        }
        for verdict in verdicts
    ]
    REPORT.write_text(json.dumps({"tolerance_gpu_seconds": TOLERANCE_S, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    raise SystemExit(main())
