"""Asks a container's probes in time while it runs, as the kubelet's probe workers do.

https://github.com/kubernetes/kubernetes/blob/v1.37.2/pkg/kubelet/prober/worker.go
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sandbox.agent.context import PodContext
from sandbox.agent.events import Severity
from sandbox.agent.probe_actions import Answer, Asked, ask
from sandbox.agent.probes import ProbeKind, RunHealth
from sandbox.agent.processes import ContainerProcess

Document = Mapping[str, Any]
Tell = Callable[[Severity, str, str], None]

ATTEMPTS = 3
"""How often is asked when asking itself goes wrong."""


class Prober:
    """The probes of one container, over all its runs.

    :param tell: posts an event about the container.
    :param fail: called when a startup or liveness probe has failed; the run is not asked any more then.
    """

    def __init__(self, pod: PodContext, container: Document, tell: Tell, fail: Callable[[ProbeKind], None]) -> None:
        self._pod = pod
        self._container = container
        self._tell = tell
        self._fail = fail
        # Probes tick from the pod's arrival on, whenever its containers start.
        self._born = time.monotonic()
        self.health = RunHealth.of(container)
        self._started = asyncio.Event()

    def begin(self) -> None:
        """Take note that another run begins, of which nothing is known."""
        self.health = RunHealth.of(self._container)
        self._started = asyncio.Event()

    async def watch(self, process: ContainerProcess) -> None:
        """Ask about a run until cancelled."""
        if self.health.started:
            self._started.set()
        if self.health.tallies:
            await asyncio.gather(*(self._watch(kind, process) for kind in self.health.tallies))

    async def _watch(self, kind: ProbeKind, process: ContainerProcess) -> None:
        health, spec = self.health, self.health.tallies[kind].spec
        period, delay = float(spec.get("periodSeconds", 10)), int(spec.get("initialDelaySeconds", 0))

        def is_due() -> bool:
            return health.is_due(kind) and int(time.time() - process.started_ns / 10**9) >= delay

        if kind is ProbeKind.READINESS:
            # Asked as soon as the container counts as started, and from then on in its period.
            await self._started.wait()
            while True:
                if is_due():
                    await self._ask(kind, health, process)
                await asyncio.sleep(period)
        while not self._pod.stopping.is_set():
            elapsed = time.monotonic() - self._born
            await asyncio.sleep((math.floor(elapsed / period) + 1) * period - elapsed)
            if is_due() and not self._pod.stopping.is_set() and await self._ask(kind, health, process):
                return

    async def _ask(self, kind: ProbeKind, health: RunHealth, process: ContainerProcess) -> bool:
        """Ask once; tell whether that was the last time for this run."""
        asked = await self._answer(kind, process)
        if asked.answer is Answer.ERROR:
            self._tell("Warning", "Unhealthy", f"{kind} probe errored and resulted in unknown state: {asked.words}")
            return False
        success = asked.answer is not Answer.FAILURE
        if asked.answer is Answer.WARNING:
            self._tell("Warning", "ProbeWarning", f"{kind} probe warning: {asked.words}")
        elif not success:
            self._tell("Warning", "Unhealthy", f"{kind} probe failed: {asked.words}")
        if not health.tallies[kind].take(success):
            return False
        if health.started:
            self._started.set()
        self._pod.changed()
        if kind is ProbeKind.READINESS:
            return False
        if not success:
            self._fail(kind)
        return kind is ProbeKind.STARTUP or not success

    async def _answer(self, kind: ProbeKind, process: ContainerProcess) -> Asked:
        spec, address = self._container[kind.key], self._pod.node.config.address
        execute = partial(process.execute, self._pod.node.launcher)
        asked = Asked(Answer.ERROR)
        for _ in range(ATTEMPTS):
            asked = await ask(spec, self._container, execute, address)
            if asked.answer is not Answer.ERROR:
                break
        return asked
