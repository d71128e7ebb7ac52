"""One process that follows pods' logs with :class:`LogFollower` into a sink that counts; and how to run it.

It is told what to do line by line on its standard input, and answers with JSON: `begin` -> when each pod's first line
was there, then when the last one was; `drain` (the pods have ended) or `stop` -> the figures.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from bench.logs.figures import Row, Run
from bench.logs.pods import NAMESPACE, Stream
from bench.logs.tally import Tally
from bench.logs.telling import CountedLog

STALL_S = 60.0
DRAIN_S = 120.0
LOOK_S = 1.0
MIB_KIB = 1024.0
_answers: IO[str] = sys.stdout


class CountingSink:
    """Counts what arrives of each pod.

    :param take: another sink behind it.
    :ivar began: when the first lines came, by the machine's monotonic clock.
    :ivar news_at: when the newest ones did.
    """

    def __init__(self, pods: list[str], lines: int, take: Callable[[Any], None] | None = None) -> None:
        self.tallies = {pod: Tally(lines) for pod in pods}
        self._take = take
        self._silent, self._open = set(pods), set(pods)
        self.began = self.news_at = 0.0
        self.all_speak, self.is_complete = asyncio.Event(), asyncio.Event()

    def __call__(self, batch: Any) -> None:
        self.news_at = time.monotonic()
        if not self.began:
            self.began = self.news_at
        tally = self.tallies[batch.pod]
        tally.take(batch.lines)
        if self._take is not None:
            self._take(batch)
        if batch.pod in self._silent:
            self._silent.discard(batch.pod)
            if not self._silent:
                self.all_speak.set()
        if tally.is_complete and batch.pod in self._open:
            self._open.discard(batch.pod)
            if not self._open:
                self.is_complete.set()

    def faults(self) -> list[str]:
        """Tell what did not arrive exactly once."""
        sums = {
            what: sum(getattr(each, what) for each in self.tallies.values())
            for what in ("missing", "repeated", "foreign")
        }
        return [f"{number} lines {what}" for what, number in sums.items() if number]


async def follow(kubeconfig: str, pods: list[str], label: str, lines: int, told: bool) -> None:
    """Follow the pods as told on standard input.

    :param told: whether what writes the task log is behind the sink.
    """
    from gpu_training.cluster.connection import Cluster, ClusterAddress
    from gpu_training.cluster.logs import LogFollower
    from gpu_training.core.hearing import Hearing
    from gpu_training.rule_table import built_in_rules
    from gpu_training.triggers.log_teller import LogTeller

    log = CountedLog()
    teller = LogTeller(log, Hearing(built_in_rules()), namespace=NAMESPACE)
    async with Cluster(ClusterAddress(conn_id=None, config_file=kubeconfig)) as cluster:
        path, query = f"/api/v1/namespaces/{NAMESPACE}/pods", {"labelSelector": label}

        async def look() -> dict[str, Any]:
            items = (await cluster.request("GET", path, doing="list pods", query=query)).document["items"]
            return {item["metadata"]["uid"]: item for item in items}

        sink = CountingSink(pods, lines, teller.take if told else None)
        follower = LogFollower(cluster, NAMESPACE, sink, log)
        found = await look()
        before_kib, before_s = _rest(), _processor_s()
        await _told("ready")
        follower.update(found, {})
        await _until(sink.all_speak, sink)
        _answer(open=True)
        await _until(sink.is_complete, sink)
        _answer(began=sink.began, complete=sink.news_at)
        if await _told() == "drain":
            follower.update(await look(), {})
            await follower.drain(DRAIN_S)
        await follower.stop()
        await teller.end()
        _answer(
            lines=sum(each.arrived for each in sink.tallies.values()),
            size=sum(each.size for each in sink.tallies.values()),
            processor_s=_processor_s() - before_s,
            memory_mib=(_status_kib("VmHWM") - before_kib) / MIB_KIB,
            faults=sink.faults() + (log.faults(lines * len(pods)) if told else []),
            note="; ".join([*([log.describe()] if told else []), *log.warnings]),
        )


async def _until(event: asyncio.Event, sink: CountingSink) -> None:
    """Wait for the event, or until nothing has come for long: what is missing then is told at the end."""
    begin = time.monotonic()
    while not event.is_set() and time.monotonic() < max(begin, sink.news_at) + STALL_S:
        try:
            await asyncio.wait_for(event.wait(), LOOK_S)
        except TimeoutError:
            continue


async def _told(ready: str | None = None) -> str:
    if ready:
        _answer(**{ready: True})
    word: str = await asyncio.to_thread(sys.stdin.readline)
    return word.strip()


def _answer(**fields: object) -> None:
    print(json.dumps(fields), file=_answers, flush=True)


def _rest() -> int:
    """Give the resident memory in KiB, and have the kernel count its peak from here on, where it lets us."""
    # Where it does not, the peak is that since the process began: what is told to be added is too much, if anything.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status_kib("VmRSS")


def _status_kib(name: str) -> int:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{name}:")[2].split()[0])


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(stream: Stream, kubeconfig: Path, home: Path, row: Row) -> Run:
    """Have a process of its own follow the pods.

    :param home: an empty folder, for what Airflow writes.
    :param row: whether they have said everything; otherwise they are told to once their logs are open.
    """
    told = {"kubeconfig": str(kubeconfig), "pods": stream.names, "label": stream.label, "lines": stream.lines}
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.logs.following", json.dumps({**told, "told": row.told})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "AIRFLOW_HOME": str(home)},
    )
    assert process.stdin is not None  # noqa: S101 - pipes were asked for
    assert process.stdout is not None  # noqa: S101
    try:
        return _conduct(process.stdin, process.stdout, stream, backlog=row.backlog)
    finally:
        process.kill()
        process.wait()


def _conduct(orders: IO[str], answers: IO[str], stream: Stream, *, backlog: bool) -> Run:
    def hear(what: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(answers.readline() or "{}")
        if what not in answer:
            raise RuntimeError(f"the process that follows was to tell {what!r} and said {answer}: see its words above")
        return answer

    def order(word: str) -> None:
        orders.write(f"{word}\n")
        orders.flush()

    hear("ready")
    order("begin")
    hear("open")
    began: float | None = None
    if not backlog:
        began = time.monotonic()
        stream.go()
    times = hear("complete")
    if not backlog:
        stream.end()
    order("stop" if backlog else "drain")
    figures = hear("memory_mib")
    faults = tuple(figures.pop("faults"))
    return Run(seconds=times["complete"] - (began or times["began"]), faults=faults, **figures)


if __name__ == "__main__":
    # What libraries print is not among the answers.
    _answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(follow(**json.loads(sys.argv[1])))
