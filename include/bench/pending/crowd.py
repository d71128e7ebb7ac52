"""Hundreds of trainings that wait in a cluster of thousands of nodes, all of them held by others: what looking costs.

Requests are counted by a proxy on the way to the API server. Processor time is that of the thread that watches, which
does nothing else. A node changes every few seconds, so that nothing that was worked out of the nodes stays good.
"""

from __future__ import annotations

import os
import secrets
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.pending_eyes import Eyes, Sight
from tests.cluster.pending_scene import training

from gpu_training.core.pending_cause import Cause
from sandbox import kwok
from sandbox.api import Document
from sandbox.bulk import Request, send_all
from sandbox.cluster import Sandbox
from sandbox.manifests import NAMESPACE
from sandbox.proxy import FaultyProxy

JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPUS = 8
HOLDERS = 10
WINDOW_S = 60.0
DEADLINE_S = 900.0
CHANGE_S = 5.0
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What it took to look at so many trainings for a minute.

    :param looks: requests that read, within :data:`WINDOW_S` seconds, once the first look was over.
    :param writes: those that wrote a cause on its Job within that time.
    :param first_looks: requests that read until each training had its report, and all around it had been looked at.
    :param first_ms: the dearest report until then, in ms of processor time: it is the first to read all nodes.
    :param report_s: processor time of each report.
    :param busy: share of one processor that all of it took.
    """

    waiting: int
    looks: int
    writes: int
    first_looks: int
    first_ms: float
    told_s: float
    report_s: tuple[float, ...]
    busy: float

    @property
    def largest_ms(self) -> float:
        return 1000 * max(self.report_s)

    @property
    def median_ms(self) -> float:
        return 1000 * statistics.median(self.report_s)


def measure(folder: Path, nodes: int, steps: tuple[int, ...], say: Callable[[str], None]) -> list[Crowd]:
    """Give what it takes with each of so many trainings that wait, more and more of them."""
    sandbox = Sandbox.up(folder, nodes=(), owner_pid=os.getpid())
    try:
        kwok.add_nodes(sandbox, nodes, gpus=GPUS, taints=())
        say(f"{nodes} nodes")
        _fill(sandbox, nodes)
        say(f"{nodes} nodes, all of them held")
        with FaultyProxy(sandbox, folder.parent) as proxy, Eyes(proxy.kubeconfig) as eyes:
            found, jobs = [], list[Document]()
            for number in steps:
                found.append(_measure(sandbox, proxy, eyes, jobs, number))
                say(f"{number} waiting")
            return found
    finally:
        sandbox.down()


def _fill(sandbox: Sandbox, nodes: int) -> None:
    """Have Jobs hold every GPU of every node."""
    each = nodes // HOLDERS
    parallel = {"parallelism": each, "completions": each, "completionMode": "Indexed"}
    documents = [training(f"holder-{number}", gpus=GPUS, job=parallel) for number in range(HOLDERS)]
    for document in documents:
        sandbox.api.request("POST", JOBS, document)
    _until(lambda: _active(sandbox) >= each * HOLDERS, "all nodes to be held")


def _active(sandbox: Sandbox) -> int:
    pods = sandbox.api.request("GET", PODS, query={"resourceVersion": "0"}, timeout_s=60)["items"]
    return sum(pod["status"]["phase"] == "Running" for pod in pods)


def _measure(sandbox: Sandbox, proxy: FaultyProxy, eyes: Eyes, jobs: list[Document], number: int) -> Crowd:
    """Have more trainings wait until there are so many, and look at all of them for a while."""
    before, started = proxy.asked("GET "), time.monotonic()
    documents = [training(f"waits-{count}", gpus=GPUS) for count in range(len(jobs), number)]
    send_all(sandbox.api, [Request(method="POST", target=JOBS, body=document) for document in documents])
    names = {document["metadata"]["name"] for document in documents}
    made = [
        each for each in sandbox.api.request("GET", JOBS, timeout_s=60)["items"] if each["metadata"]["name"] in names
    ]
    for job in made:
        job |= {"kind": "Job"}
        eyes.follow(job)
    jobs += made
    sights = list(eyes.sights.values())
    _until(lambda: all(map(_is_told, sights)), f"{number} reports")
    told_s, first = time.monotonic() - started, proxy.asked("GET ") - before
    dearest = max(seconds for sight in sights for seconds in sight.processor_s)
    for sight in sights:
        sight.processor_s.clear()
    before, written, busy = proxy.asked("GET "), proxy.asked("PATCH "), eyes.processor_s()
    _change_nodes(sandbox, WINDOW_S)
    return Crowd(
        waiting=number,
        looks=proxy.asked("GET ") - before,
        writes=proxy.asked("PATCH ") - written,
        first_looks=first,
        first_ms=1000 * dearest,
        told_s=told_s,
        report_s=tuple(seconds for sight in sights for seconds in list(sight.processor_s)),
        busy=(eyes.processor_s() - busy) / WINDOW_S,
    )


def _is_told(sight: Sight) -> bool:
    """Whether the cause is told, by what was seen of the nodes and not only by what the scheduler says of them."""
    report = sight.report
    return bool(
        report is not None
        and report.cause is Cause.GPUS_TAKEN
        and not any("not looked at" in why for why in report.hidden)
    )


def _change_nodes(sandbox: Sandbox, seconds: float) -> None:
    """Change one node after another, for so long."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        count += 1
        change = {"metadata": {"labels": {"bench": secrets.token_hex(4)}}}
        sandbox.api.request("PATCH", f"/api/v1/nodes/kwok-{count}", change, content_type=MERGE)
        time.sleep(max(0.0, min(CHANGE_S, end - time.monotonic())))


def _until(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not after {DEADLINE_S:.0f} s")
        time.sleep(1)
