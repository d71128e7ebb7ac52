"""Thousands of nodes and pods in one sandbox: how long they take and what they cost.

`python -m bench.scale [--nodes 1000 5000] [--pods 5000] [--jobs 10] [--run 300]`: for each number of nodes a sandbox of
its own, nodes of kind kwok, then Jobs whose pods run for so many seconds each. Told are the seconds until all nodes
take pods, until all pods run, until all Jobs are complete, the processor time of all programs till then, which says
more than seconds where a machine has other work, too, and the memory of each program when it was highest.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox import kwok
from sandbox.bulk import Request, send_all
from sandbox.cluster import Sandbox
from sandbox.kwok import PodLife
from sandbox.processes import memory_bytes

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
DEADLINE_S = 3600.0
LOOK_S = 3.0
MEBIBYTE = 1 << 20


def job_document(number: int, pods: int, run_s: float) -> dict[str, Any]:
    container = {"name": "training", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    template = {
        "metadata": {"annotations": PodLife(run_s=run_s).annotations()},
        "spec": {"restartPolicy": "Never", "tolerations": [{"operator": "Exists"}], "containers": [container]},
    }
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "template": template}
    return {"metadata": {"name": f"bench-{number}"}, "spec": spec}


def processor_seconds(pid: int) -> float:
    """Give what a process has used, https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cost:
    """The highest memory of each of a sandbox's programs, in MiB, and their processor time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._mib: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = {}

    def look(self) -> None:
        for name, status in self._sandbox.supervisor.status().items():
            if status.alive:
                self._mib[name] = max(self._mib[name], memory_bytes(status.pid) // MEBIBYTE)
                self._seconds[name] = processor_seconds(status.pid)

    def describe(self) -> str:
        self.look()
        used = f"{sum(self._seconds.values()):.0f} processor seconds, at most {sum(self._mib.values())} MiB"
        return f"{used}: " + ", ".join(f"{name} {mib}" for name, mib in self._mib.items())


def phases(sandbox: Sandbox) -> Counter[str]:
    """Give how many pods are in each phase; their Jobs tell it late when they are busy."""
    # Any version will do: from the API server's memory, which is cheaper than from etcd.
    pods = sandbox.api.request("GET", PODS, query={"resourceVersion": "0"}, timeout_s=60)["items"]
    return Counter(pod["status"]["phase"] for pod in pods)


def complete(sandbox: Sandbox) -> int:
    """Give how many Jobs are complete."""
    jobs = sandbox.api.request("GET", JOBS, timeout_s=60)["items"]
    return sum(any(each["type"] == "Complete" for each in job["status"].get("conditions", ())) for job in jobs)


def until(cost: Cost, condition: Callable[[], bool]) -> float:
    """Give the seconds until a condition holds."""
    started = time.monotonic()
    while not condition():
        cost.look()
        if time.monotonic() - started > DEADLINE_S:
            raise TimeoutError(f"no end after {DEADLINE_S:.0f} s")
        time.sleep(LOOK_S)
    return time.monotonic() - started


def measure(folder: Path, nodes: int, pods: int, jobs: int, run_s: float) -> None:
    sandbox = Sandbox.up(folder, nodes=(), owner_pid=os.getpid())
    try:
        cost = Cost(sandbox)
        kwok.add_nodes(sandbox, 1, name="warm")
        started = time.monotonic()
        kwok.add_nodes(sandbox, nodes)
        print(f"{nodes} nodes: all take pods after {time.monotonic() - started:.0f} s; {cost.describe()}", flush=True)
        documents = [job_document(number, pods // jobs, run_s) for number in range(jobs)]
        send_all(sandbox.api, [Request(method="POST", target=JOBS, body=document) for document in documents])
        most = 0

        def all_run() -> bool:
            nonlocal most
            seen = phases(sandbox)
            most = max(most, seen["Running"])
            return seen["Running"] + seen["Succeeded"] >= pods // jobs * jobs

        seconds = until(cost, all_run)
        told = f"all have started after {seconds:.0f} s, {most} run at once"
        print(f"{nodes} nodes, {pods} pods: {told}; {cost.describe()}", flush=True)
        seconds += until(cost, lambda: complete(sandbox) == jobs)
        told = f"all {jobs} Jobs complete after {seconds:.0f} s, each pod having run {run_s:g} s"
        print(f"{nodes} nodes, {pods} pods: {told}; {cost.describe()}", flush=True)
    finally:
        sandbox.down()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 5000], metavar="N")
    parser.add_argument("--pods", type=int, default=5000, metavar="N", help="in all (%(default)s)")
    parser.add_argument("--jobs", type=int, default=10, metavar="N", help="that they belong to (%(default)s)")
    parser.add_argument("--run", type=float, default=300.0, metavar="S", help="seconds that a pod runs (%(default)s)")
    arguments = parser.parse_args()
    for nodes in arguments.nodes:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder) / "sandbox", nodes, arguments.pods, arguments.jobs, arguments.run)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
