"""Looks at trainings that wait as the trigger does: the shared watch, its lookout, the trigger's own watchman."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.cluster.pending_scene import DEPLOYMENT

from gpu_training.cluster.connection import ClusterAddress
from gpu_training.cluster.watch import SharedWatch
from gpu_training.core.decide import Policy, decide
from gpu_training.core.events import JobReference
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.phase import Wait
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers.watchman import Watchman
from sandbox.api import Document
from sandbox.waiting import DeadlineError, wait_for

POLICY = Policy(rules=built_in_rules())


@dataclass
class Sight:
    """What was seen of a training.

    :ivar reports: each that differs from the one before, with the time by :func:`time.monotonic`; None: nothing waits.
    :ivar processor_s: processor time of each look, without what the collection of the whole process's garbage took.
    """

    reports: list[tuple[float, Report | None]] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)

    @property
    def report(self) -> Report | None:
        """The newest one."""
        return self.reports[-1][1] if self.reports else None

    def told_at(self, cause: Cause) -> float | None:
        """Give when a cause was told first, and was told from then on; None when it is not told now."""
        at = None
        for when, report in self.reports:
            at = None if report is None or report.cause is not cause else at or when
        return at


class Garbage:
    """Processor time that the collection of garbage takes in a thread, while the block lasts; it comes at any moment.

    :ivar seconds: so far.
    """

    def __init__(self, thread: threading.Thread) -> None:
        self.seconds = 0.0
        self._thread = thread
        self._began = 0.0

    def __enter__(self) -> Self:
        gc.callbacks.append(self._tell)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._tell)

    def _tell(self, phase: str, _: object) -> None:
        if threading.current_thread() is not self._thread:
            return
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._began


class Eyes:
    """Follows any number of Jobs.

    :param kubeconfig: of the account that looks.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self.sights: dict[str, Sight] = {}
        self._address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))
        self._loop = asyncio.new_event_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="eyes", daemon=True)
        self._garbage = Garbage(self._thread)

    def __enter__(self) -> Self:
        self._garbage.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._garbage.__exit__()

    def follow(self, job: Document) -> Sight:
        """Watch a Job from now on."""
        sight = self.sights[job["metadata"]["uid"]] = Sight()
        self._do(self._begin(job, sight))
        return sight

    def await_report(
        self,
        job: Document,
        cause: Cause,
        cure: Cure,
        deadline_s: float,
        *,
        lacks: Callable[[Report], list[str]] = lambda _: [],
    ) -> Report:
        """Give the first report with a cause and its cure that lacks nothing.

        :raises AssertionError: there is none in time, or that another cause can never be cured was told on the way.
        """
        sight, name = self.sights[job["metadata"]["uid"]], job["metadata"]["name"]

        def told() -> Report | None:
            report = sight.report
            fits = report is not None and (report.cause, report.cure) == (cause, cure) and not lacks(report)
            return report if fits else None

        try:
            report = wait_for(told, deadline_s, f"{cause}, {cure}")
        except DeadlineError as error:
            missing = lacks(sight.report) if sight.report else ["everything"]
            raise AssertionError(f"{name}: {error}; told is {sight.report}, which lacks {missing}") from error
        assert report is not None
        wrong = [each for _, each in sight.reports if each and each.cure is Cure.NEVER and each.cause is not cause]
        assert wrong == [], f"{name}: ended for {wrong} before {report}"
        return report

    def processor_s(self) -> float:
        """Give the processor time, in seconds, that the thread has used."""

        async def used() -> float:
            return time.thread_time()

        seconds: float = self._do(used())
        return seconds

    async def _begin(self, job: Document, sight: Sight) -> None:
        self._tasks.append(asyncio.create_task(self._watch(job, sight)))

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _watch(self, job: Document, sight: Sight) -> None:
        metadata = job["metadata"]
        reference = JobReference(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
        async with SharedWatch.subscribe(self._address, job=reference, deployment=DEPLOYMENT) as (
            subscription,
            cluster,
        ):
            watchman = Watchman(subscription, cluster, logging.getLogger(__name__))
            while True:
                began = time.thread_time() - self._garbage.seconds
                observation, now = subscription.observe(), cluster.clock.now()
                wait = decide(observation, POLICY, now)
                if not isinstance(wait, Wait):
                    return
                pause = watchman.look(observation, wait, now)
                sight.processor_s.append(time.thread_time() - self._garbage.seconds - began)
                if not sight.reports or watchman.report != sight.reports[-1][1]:
                    sight.reports.append((time.monotonic(), watchman.report))
                await watchman.write(observation)
                await subscription.changed(pause)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
