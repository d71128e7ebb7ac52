"""GPU-seconds wasted by ours, by the stock operator, and by the stock operator tuned, in one run on one sandbox.

`python -m bench.waste [--rows host-oom,cleared] [--state DIR]`: prints the table, writes `build/bench-waste.json`, and
exits 1 while the goal is missed or a fault could not be made. What is measured and what counts as useful:
docs/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

from bench.waste.figures import Baseline, Report
from bench.waste.play import HORIZON_S, Performance
from bench.waste.rows import Row, choose
from bench.waste.stage import stage

REPORT = Path(__file__).resolve().parents[3] / "build" / "bench-waste.json"


def measure(folder: Path, rows: list[Row]) -> bool:
    """Play the rows, print and write what came of it; give whether all went as it should and the goal is met."""
    began = time.monotonic()
    with stage(folder, rows) as where:
        performance = Performance(where)
        performance.play(rows)
        baseline = Baseline(seconds=tuple(performance.baselines))
        report = Report(lines=tuple(performance.line(row, baseline) for row in rows), baseline=baseline)
    faults = {key: str(ended.fault) for key, ended in performance.ended.items() if ended.fault is not None}
    machine = {"seconds": round(time.monotonic() - began), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(report.text())
    print(f"{machine['seconds']} s in all, {machine['cores']} cores, load {machine['load']:.1f} at the end")
    for key, fault in faults.items():
        print(f"NOT MEASURED: {key}: {fault}", file=sys.stderr)
    REPORT.parent.mkdir(exist_ok=True)
    document = {**report.document(), "horizon": HORIZON_S, "faults": faults, **machine}
    REPORT.write_text(json.dumps(document, indent=2) + "\n")
    return report.met and not faults


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.waste", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", metavar="NAME,…", help="these rows only")
    parser.add_argument("--state", type=Path, metavar="DIR", help="an empty folder for all that is written; it stays")
    arguments = parser.parse_args()
    try:
        rows = choose(arguments.rows)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() if arguments.state is None else nullcontext(arguments.state) as folder:
        return 0 if measure(Path(folder).resolve(), rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
