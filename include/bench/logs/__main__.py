"""How fast logs are followed, and in how much memory, beside `kubectl logs -f --timestamps` on the same streams.

`python -m bench.logs [--size 1GiB] [--pods 64] [--rows one,many] [--rounds 2]`, from the project's folder. Pods of a
node of kind process write numbered lines of 100 bytes as fast as they can, each row's size in all. Ours is a process of
its own with a sink that compares each line with the one that is due; kubectl is a process a pod, into counted pipes.
They take turns: ours, kubectl, ours, kubectl; the medians are told. Rows with `backlog` read what was written before,
from the same files; the others follow while it is written, new pods each time. Rows with `told` go through what writes
the task log, within its limits, and are for information.

Prints a table, writes `build/bench-logs.json`, and exits 1 while a goal is missed: every line there exactly once, at
least half of kubectl's throughput, and at most 64 MiB more memory than before the first log was opened.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

from bench.logs import following, kubectl
from bench.logs.figures import HEAD, Figures, Row, Run, parse_size, rows
from bench.logs.pods import NAMESPACE, NODE, Stream, stream
from bench.logs.writer import LINE_BYTES
from sandbox.binaries import KUBECTL, find_binaries
from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest
from sandbox.progress import Display
from sandbox.waiting import wait_for

REPORT = Path(__file__).resolve().parents[3] / "build" / "bench-logs.json"
DEADLINE_S = 60.0
MOST_PODS = 100


class Bench:
    """A sandbox with one node, and both sides to run in it."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say
        with closing(Display()) as display:
            self._program = find_binaries(display, sources=(KUBECTL,))["kubectl"]
        node = NodeRequest(name=NODE, gpus=0, cpu="64", memory="64Gi", labels={}, taints=())
        self.sandbox = Sandbox.up(folder / "sandbox", nodes=(node,), owner_pid=os.getpid())
        api, account = self.sandbox.api, f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        wait_for(lambda: api.exists(account), DEADLINE_S, "the default service account")

    def measure(self, row: Row, size: int, rounds: int) -> Figures:
        """Have both sides take turns."""
        lines = row.lines(size)
        sides: dict[str, tuple[Callable[[Stream], Run], list[Run]]] = {
            "ours": (lambda made: self._ours(made, row), []),
            "kubectl": (lambda made: self._kubectl(made, row), []),
        }
        turns = [each for _ in range(rounds) for each in sides.items() if not (row.told and each[0] == "kubectl")]
        if row.backlog:
            with stream(self.sandbox, self._folder, pods=row.pods, lines=lines) as made:
                made.go()
                made.wait_until_written()
                for name, (side, runs) in turns:
                    runs.append(self._told(row, name, side(made)))
        else:
            for name, (side, runs) in turns:
                with stream(self.sandbox, self._folder, pods=row.pods, lines=lines) as made:
                    runs.append(self._told(row, name, side(made)))
        return Figures(row=row, said=lines * row.pods * LINE_BYTES, ours=sides["ours"][1], kubectl=sides["kubectl"][1])

    def _ours(self, made: Stream, row: Row) -> Run:
        return following.measure(made, self.sandbox.kubeconfig, self._home("ours"), row)

    def _kubectl(self, made: Stream, row: Row) -> Run:
        return kubectl.measure(made, self._program, self.sandbox.kubeconfig, self._home("kubectl"), backlog=row.backlog)

    def _home(self, name: str) -> Path:
        home = self._folder / name
        home.mkdir(exist_ok=True)
        return home

    def _told(self, row: Row, name: str, run: Run) -> Run:
        self._say(
            f"{row.title}, {name}: {run.seconds:.1f} s, {run.lines:,} lines, {run.size:,} bytes, "
            f"{run.processor_s:.1f} s of processor time, {run.memory_mib:.1f} MiB"
            + "".join(f"; {each}" for each in (run.note, *run.faults) if each)
        )
        return run


def main() -> int:
    arguments = _arguments()
    known = {row.name: row for row in rows(arguments.pods)}
    wanted = arguments.rows.split(",") if arguments.rows else list(known)
    if unknown := set(wanted) - known.keys():
        raise SystemExit(f"there is no row {min(unknown)!r}: known are {', '.join(known)}")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), lambda text: print(text, flush=True))
        try:
            measured = [bench.measure(known[name], arguments.size, arguments.rounds) for name in wanted]
        finally:
            bench.sandbox.down()
    print(HEAD)
    for figures in measured:
        print(figures.describe())
    met = not any(figures.missed for figures in measured)
    document = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "size": arguments.size, "met": met}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({**document, "rows": [asdict(each) for each in measured]}, indent=2) + "\n")
    print("goals: every line once, at least half of kubectl's throughput, 64 MiB: " + ("met" if met else "MISSED"))
    return 0 if met else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.logs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=_size, default=1 << 30, help="of each row in all, such as 64MiB (1GiB)")
    parser.add_argument("--pods", type=int, default=64, metavar="N", help="how many are many (%(default)s)")
    parser.add_argument("--rows", metavar="NAMES", help=f"some of {','.join(row.name for row in rows(64))} (all)")
    parser.add_argument("--rounds", type=int, default=2, metavar="N", help="turns of each side (%(default)s)")
    arguments = parser.parse_args()
    if not 0 < arguments.pods <= MOST_PODS:
        parser.error(f"--pods is {arguments.pods}: 1 to {MOST_PODS} fit on a node")
    if arguments.rounds < 1:
        parser.error(f"--rounds is {arguments.rounds}: give a whole number from 1 up")
    return arguments


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    raise SystemExit(main())
