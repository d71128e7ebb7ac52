"""How soon it is told why a training waits, and what telling costs in a large cluster.

`python -m bench.pending [--nodes 5000] [--waiting 10 100 500] [--only latency|crowd]`, from the project's folder: each
cause made for real in one sandbox; then nodes of kind kwok, all held, and trainings that wait for them, in another.
Prints a table, writes `build/bench-pending.json`, and exits 1 while a goal is missed: every cause told within
:data:`LATENCY_GOAL_S`, every report for less than :data:`REPORT_GOAL_MS` of processor time (without the collection of
the whole process's garbage, which falls on any), and no more requests a minute with many trainings than with few.
The cause is written on each Job once; those writes are counted apart.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench.pending import crowd, latency
from bench.pending.crowd import Crowd
from bench.pending.latency import Latency

REPORT = Path(__file__).resolve().parents[3] / "build" / "bench-pending.json"
LATENCY_GOAL_S = 3.0
REPORT_GOAL_MS = 50.0
MORE_REQUESTS = 3
"""Watches of a minute each are begun anew: a window may have some of them twice."""


def told(latencies: list[Latency]) -> bool:
    """Print how soon each cause was told; give whether the goal is met."""
    for each in latencies:
        seconds = f"NOT TOLD (but {each.told})" if each.seconds is None else f"{each.seconds:6.2f} s"
        print(f"{each.situation:<34} {each.cause:<28} {seconds}")
    late = [each for each in latencies if each.seconds is None or each.seconds > LATENCY_GOAL_S]
    worst = max((each.seconds for each in latencies if each.seconds is not None), default=0.0)
    print(
        f"{len(latencies)} causes, at most {worst:.2f} s; goal: each within {LATENCY_GOAL_S:g} s: "
        + (f"MISSED by {', '.join(each.situation for each in late)}" if late else "met")
    )
    return not late


def cheap(crowds: list[Crowd], nodes: int) -> bool:
    """Print what it costs; give whether the goals are met."""
    for each in crowds:
        print(
            f"{nodes} nodes, {each.waiting} waiting: told after {each.told_s:.0f} s, {each.first_looks} requests, "
            f"{each.first_ms:.1f} ms for the dearest report; then "
            f"{each.looks} requests and {each.writes} writes in {crowd.WINDOW_S:.0f} s, {len(each.report_s)} reports, "
            f"processor time p50 {each.median_ms:.1f} ms, max {each.largest_ms:.1f}; "
            f"{100 * each.busy:.0f}% of a core"
        )
    dear = max(max(each.largest_ms, each.first_ms) for each in crowds)
    quick = dear < REPORT_GOAL_MS
    print(f"a report: at most {dear:.1f} ms; goal: under {REPORT_GOAL_MS:.0f} ms: {'met' if quick else 'MISSED'}")
    looks = [each.looks for each in crowds]
    grows = looks[-1] > min(looks) + MORE_REQUESTS
    print(
        f"requests a minute: {', '.join(map(str, looks))}; "
        f"goal: no more with many than with few: {'MISSED' if grows else 'met'}"
    )
    return quick and not grows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.pending", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=5000, metavar="N")
    parser.add_argument("--waiting", type=int, nargs="+", default=[10, 100, 500], metavar="N", help="in this order")
    parser.add_argument("--only", choices=("latency", "crowd"), help="this part only")
    arguments = parser.parse_args()
    figures: dict[str, object] = {"cores": os.cpu_count()}
    met = []
    if arguments.only != "crowd":
        with tempfile.TemporaryDirectory() as folder:
            latencies = latency.measure(Path(folder) / "sandbox")
        met.append(told(latencies))
        figures["latency"] = [asdict(each) for each in latencies]
    if arguments.only != "latency":
        with tempfile.TemporaryDirectory() as folder:
            steps = tuple(sorted(arguments.waiting))
            crowds = crowd.measure(
                Path(folder) / "sandbox", arguments.nodes, steps, lambda text: print(text, flush=True)
            )
        met.append(cheap(crowds, arguments.nodes))
        summaries = ((each, {"p50_ms": each.median_ms, "max_ms": each.largest_ms}) for each in crowds)
        figures["crowd"] = [{**asdict(each), **more, "report_s": len(each.report_s)} for each, more in summaries]
        figures["nodes"] = arguments.nodes
    figures |= {"load": os.getloadavg()[0], "met": all(met)}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(figures, indent=2) + "\n")
    return 0 if all(met) else 1


if __name__ == "__main__":
    raise SystemExit(main())
