"""One pod from its arrival on the node to its removal: admission, volumes, containers, deadline, deletion."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from sandbox.agent.containers import ContainerRunner
from sandbox.agent.context import NodeContext, PodContext
from sandbox.agent.objects import ObjectReader
from sandbox.agent.pod_volumes import PodVolumes
from sandbox.agent.states import Phase, PodView, settle, succeeded
from sandbox.agent.status import build_rejection, build_status, parse_time
from sandbox.agent.status_writer import StatusWriter
from sandbox.agent.stopping import Stop, find_stop, is_deleted, seconds_to_deadline
from sandbox.agent.volumes import VolumeUnsupportedError

Document = Mapping[str, Any]

KILL_REPEAT_S = 2.0

logger = logging.getLogger(__name__)


class PodWorker:
    """Lives one pod.

    :param find_refusal: asks whether the node takes the pod; reason and message when it does not.
    """

    def __init__(
        self,
        node: NodeContext,
        document: Document,
        find_refusal: Callable[[Document], Awaitable[tuple[str, str] | None]],
    ) -> None:
        self._document = document
        self._find_refusal = find_refusal
        self._gone = False
        self._updated = asyncio.Event()
        self.folder = node.config.root / "pods" / document["metadata"]["uid"]
        self._conditions: list[dict[str, Any]] = list((document.get("status") or {}).get("conditions") or ())
        self._started_ns = _start_time(document)
        self._ended = False
        self._removed = False
        self._settled: PodView | None = None
        self._failure: tuple[str, str] | None = None
        self._rejection: dict[str, Any] | None = None
        self._sandbox_ready = False
        self._writer = StatusWriter(node.client, document, self._build_status)
        self._pod = PodContext(
            node=node,
            document=document,
            folder=self.folder,
            objects=ObjectReader(node.client, document),
            changed=self._writer.mark,
            running=lambda: sum(runner.running for runner in self._runners),
        )
        spec = document["spec"]
        self._inits = [ContainerRunner(self._pod, one, init=True) for one in spec.get("initContainers") or ()]
        self._regulars = [ContainerRunner(self._pod, one, init=False) for one in spec["containers"]]
        self._volumes = PodVolumes(self._pod)
        self.admitted = False

    @property
    def document(self) -> Document:
        """The newest that is known of the pod."""
        return self._document

    @property
    def holds_resources(self) -> bool:
        """Whether what the pod asked for is taken from the node."""
        return self.admitted and not self._ended

    def update(self, document: Document, gone: bool) -> None:
        """Take note of a change of the pod's object."""
        self._document, self._gone = document, gone
        self._updated.set()

    def container(self, name: str) -> ContainerRunner | None:
        """Return a container of the pod by its name."""
        return next((one for one in self._runners if one.name == name), None)

    @property
    def files_removed(self) -> bool:
        """Whether the logs are gone although the pod's object may still be there."""
        return self._removed

    @property
    def _runners(self) -> list[ContainerRunner]:
        return [*self._inits, *self._regulars]

    async def run(self) -> None:
        """Live the pod until its object is gone."""
        writer = asyncio.create_task(self._writer.run())
        try:
            await self._live()
            await self._leave()
        finally:
            writer.cancel()

    async def _live(self) -> None:
        self._restore()
        if (self._document.get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED):
            self._ended = True
            return
        if not self.admitted and (refusal := await self._find_refusal(self._document)):
            reason, message = refusal
            self._pod.tell("Warning", reason, message)
            self._rejection, self._ended = build_rejection(reason, message, now_ns=time.time_ns()), True
            self._writer.mark()
            return
        self.admitted = True
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.folder / "pod.json").write_text(json.dumps(self._document))
        self._writer.mark()
        containers = asyncio.create_task(self._run_containers())
        try:
            await self._supervise(containers)
        finally:
            containers.cancel()
        self._ended, self._sandbox_ready = True, False
        self._volumes.close()
        self._writer.mark()

    def _restore(self) -> None:
        """Take up what an earlier agent of this node left of the pod, so that nothing is run twice."""
        if self.folder.exists():
            self.admitted = True
            told = {one["name"]: one for one in (self._document.get("status") or {}).get("containerStatuses") or ()}
            for runner in self._runners:
                runner.restore(told.get(runner.name, {}))
        elif (self._document.get("status") or {}).get("phase") == Phase.RUNNING:
            self.admitted = True
            for status in self._document["status"].get("containerStatuses") or ():
                if known := self.container(status["name"]):
                    known.assume_lost(status["restartCount"])
        self._sandbox_ready = any(runner.running for runner in self._runners)

    async def _run_containers(self) -> None:
        found = self._sandbox_ready
        try:
            await self._volumes.prepare(made_before=found)
        except VolumeUnsupportedError as error:
            for runner in self._inits[:1] or self._regulars:
                runner.refuse(str(error))
            await self._pod.stopping.wait()
        if self._pod.stopping.is_set() and not found:
            return
        self._sandbox_ready = True
        self._writer.mark()
        refresh = asyncio.create_task(self._volumes.keep_fresh())
        try:
            for runner in self._inits:
                await runner.run()
                if not succeeded(runner.view.state):
                    return
            await asyncio.gather(*(runner.run() for runner in self._regulars))
        finally:
            refresh.cancel()

    async def _supervise(self, containers: asyncio.Task[None]) -> None:
        """Wait until the containers have ended by themselves, or end them when the pod has to."""
        while not containers.done():
            if stop := self._find_stop():
                await self._stop(containers, stop)
                break
            left = seconds_to_deadline(self._document, started_ns=self._started_ns, now_ns=time.time_ns())
            await self._wait(containers, left)
        if not containers.cancelled() and (error := containers.exception()):
            logger.error("pod %s: %r", self.folder.name, error, exc_info=error)
            self._failure = ("NodeAgentError", f"the node agent failed: {error!r}")
            self._settled = settle(self._view())

    async def _wait(self, containers: asyncio.Task[None], seconds: float | None) -> None:
        """Wait for the containers, an update, or the time."""
        update = asyncio.create_task(self._updated.wait())
        try:
            await asyncio.wait([containers, update], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            update.cancel()
            self._updated.clear()

    def _find_stop(self) -> Stop | None:
        order = self._pod.node.orders.pods.get(self._document["metadata"]["uid"])
        return find_stop(
            self._document, gone=self._gone, order=order, started_ns=self._started_ns, now_ns=time.time_ns()
        )

    async def _stop(self, containers: asyncio.Task[None], stop: Stop) -> None:
        """End all containers: SIGTERM, and what still runs after the grace period is killed.

        A later deletion that grants less changes nothing, as with a kubelet: it waits for the end that it asked for.
        https://github.com/kubernetes/kubernetes/issues/113606
        """
        if stop.failure:
            self._failure = stop.failure
            self._pod.tell("Normal", stop.failure[0], stop.failure[1])
        self._pod.stopping.set()
        for runner in self._runners:
            runner.terminate()
        kill_at = time.monotonic() + stop.grace_s
        while not containers.done():
            left = kill_at - time.monotonic()
            if left <= 0:
                for runner in self._runners:
                    runner.kill()
                left = KILL_REPEAT_S
            await self._wait(containers, left)
        self._settled = settle(self._view())

    async def _leave(self) -> None:
        """Report the end, and once the pod is to be deleted, have it removed."""
        while True:
            await self._writer.flush()
            if self._gone or self._writer.pod_gone:
                break
            if is_deleted(self._document) and not self._removed:
                await self._writer.delete()
                self._remove_files()
                continue
            await self._updated.wait()
            self._updated.clear()
        self._remove_files()

    def _remove_files(self) -> None:
        self._removed = True
        with suppress(FileNotFoundError):
            shutil.rmtree(self.folder)

    def _view(self) -> PodView:
        if self._settled is not None:
            return self._settled
        return PodView(
            init=tuple(runner.view for runner in self._inits),
            regular=tuple(runner.view for runner in self._regulars),
            started_ns=self._started_ns,
            sandbox_ready=self._sandbox_ready,
            ended=self._ended,
            failure=self._failure,
        )

    def _build_status(self) -> dict[str, Any]:
        if self._rejection is not None:
            return self._rejection
        status = build_status(
            self._document,
            self._view(),
            address=self._pod.node.config.address,
            before=self._conditions,
            now_ns=time.time_ns(),
        )
        uid = self._document["metadata"]["uid"]
        status["conditions"] = self._conditions = self._pod.node.orders.with_disruption(uid, status["conditions"])
        return status


def _start_time(document: Document) -> int:
    known = (document.get("status") or {}).get("startTime")
    return parse_time(known) if known else time.time_ns()
