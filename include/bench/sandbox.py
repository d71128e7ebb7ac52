"""The sandbox from nothing to one node Ready with binaries cached, its memory, its end and what it leaves.

`python -m bench.sandbox [--runs 5]`: a run is `python -m sandbox up`, a look at it, and `down`. Up and down are
wall seconds of the whole command. Memory is the proportional set size (PSS) of every process of the sandbox, shared
pages divided among their users, :data:`SETTLE_S` seconds after it is up; other sandboxes would share in it: run none
beside it. Left is every process that carries the sandbox's mark, and every file and mount that was not there before.
Exits 1 while a goal is missed; figures go to `build/bench-sandbox.json`, with the machine's load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.binaries import find_binaries
from sandbox.process_spec import STATE_VARIABLE
from sandbox.processes import has_variables, snapshot
from sandbox.progress import Display

REPORT = Path(__file__).resolve().parents[2] / "build" / "bench-sandbox.json"
UP_GOAL_S = 8.0
MEMORY_GOAL_MIB = 700
SETTLE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One life of a sandbox.

    :param left: what was there after it and not before.
    """

    up_s: float
    down_s: float
    memory_mib: dict[str, int]
    left: list[str]


def live(folder: Path) -> Run:
    """Start a sandbox below an empty folder, look at it, end it."""
    state, mounts = folder / "state", Path("/proc/self/mounts").read_text()
    temporary = folder / "tmp"
    temporary.mkdir()
    up_s = _timed("up", state, temporary)
    time.sleep(SETTLE_S)
    memory = _memory(state)
    down_s = _timed("down", state, temporary)
    marked = [pid for pid in snapshot() if has_variables(pid, {STATE_VARIABLE: str(state)})]
    new_mounts = set(Path("/proc/self/mounts").read_text().splitlines()) - set(mounts.splitlines())
    files = [each for each in folder.rglob("*") if each != temporary]
    return Run(up_s=up_s, down_s=down_s, memory_mib=memory, left=[str(each) for each in (*marked, *new_mounts, *files)])


def report(runs: Sequence[Run]) -> bool:
    """Print the figures and write them down; give whether all goals are met."""
    ups, downs = [run.up_s for run in runs], [run.down_s for run in runs]
    memory = max(sum(run.memory_mib.values()) for run in runs)
    left = [each for run in runs for each in run.left]
    load = os.getloadavg()[0]
    goals = [
        (f"up: {_spread(ups)}", f"median under {UP_GOAL_S:.0f} s", statistics.median(ups) < UP_GOAL_S),
        (f"memory: {memory} MiB at most", f"under {MEMORY_GOAL_MIB} MiB", memory < MEMORY_GOAL_MIB),
        (f"left after down: {', '.join(left) or 'nothing'}", "nothing", not left),
    ]
    for text, goal, met in goals:
        print(f"{text}; goal: {goal}: {'met' if met else 'MISSED'}")
    print(f"down: {_spread(downs)}")
    print("memory of a run: " + ", ".join(f"{name} {mib}" for name, mib in runs[-1].memory_mib.items()))
    print(f"{os.cpu_count()} cores, load {load:.1f} at the end")
    figures = {
        "up_s": ups,
        "down_s": downs,
        "memory_mib": [run.memory_mib for run in runs],
        "left": left,
        "load": load,
        "cores": os.cpu_count(),
        "met": all(met for _, _, met in goals),
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(figures, indent=2) + "\n")
    return all(met for _, _, met in goals)


def _spread(seconds: Sequence[float]) -> str:
    return f"min {min(seconds):.1f} s, median {statistics.median(seconds):.1f} s, max {max(seconds):.1f} s"


def _timed(command: str, state: Path, temporary: Path) -> float:
    started = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "sandbox", command, "--state", str(state)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.monotonic() - started


def _memory(state: Path) -> dict[str, int]:
    command = [sys.executable, "-m", "sandbox", "status", "--state", str(state), "--json"]
    status = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    parts = {process["name"]: process["memory_mib"] for process in status["processes"]}
    return {**parts, "supervisor": status["memory_mib"] - sum(parts.values())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    runs = parser.parse_args().runs
    find_binaries(Display())
    lives = []
    for number in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            lives.append(live(Path(folder)))
        print(f"run {number + 1}: up {lives[-1].up_s:.1f} s, down {lives[-1].down_s:.1f} s", flush=True)
    return 0 if report(lives) else 1


if __name__ == "__main__":
    raise SystemExit(main())
