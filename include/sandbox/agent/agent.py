"""The node agent: puts node, pods and log server together and runs them until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
from typing import Any

from sandbox.agent.admission import find_refusal
from sandbox.agent.api import ApiClient, ApiError, ApiUnavailableError
from sandbox.agent.config import AgentConfig
from sandbox.agent.context import NodeContext
from sandbox.agent.events import EventRecorder
from sandbox.agent.images import ImageStore
from sandbox.agent.launcher import Launcher
from sandbox.agent.namespaces import REMEDY, fault_of_namespaces
from sandbox.agent.node import GPU, NodeKeeper, capacity
from sandbox.agent.order_server import OrderServer
from sandbox.agent.orders import Orders
from sandbox.agent.pods import PodWorker
from sandbox.agent.reflector import Reflector
from sandbox.agent.server import LogServer

READY_FILE = "ready.json"

logger = logging.getLogger(__name__)


class NodeAgent:
    """One node."""

    def __init__(self, config: AgentConfig, client: ApiClient) -> None:
        self._config = config
        self._client = client
        orders = Orders()
        self._keeper = NodeKeeper(client, config, orders)
        self._events = EventRecorder(client, config.node_name)
        self._server = LogServer(config, self._find_pod, OrderServer(orders, self._find_pod, self._keeper.refresh))
        selector = {"fieldSelector": f"spec.nodeName={config.node_name}"}
        self._pods = Reflector(client, "/api/v1/pods", selector, self._on_pod)
        self._services = Reflector(client, "/api/v1/services", {}, lambda *_: None)
        self._node = NodeContext(
            config=config,
            client=client,
            images=ImageStore(config.images),
            events=self._events,
            launcher=Launcher(),
            orders=orders,
            services=lambda: list(self._services.objects.values()),
            allocatable=capacity(config),
            namespace_fault=fault_of_namespaces(),
        )
        self._workers: dict[str, PodWorker] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Register, tell that the node is ready in `<root>/ready.json`, and work until cancelled.

        Containers are left running: a node's restart is no reason for a training to end. The next agent of this root
        finds them.
        """
        ready = self._config.root / READY_FILE
        ready.unlink(missing_ok=True)
        if self._node.namespace_fault is not None:
            logger.warning("no container can start: %s; %s", self._node.namespace_fault, REMEDY)
        self._node.launcher.start()
        try:
            port = await self._server.start()
            self._start(self._services.run())
            await self._keeper.register(port)
            self._start(self._events.run())
            self._start(self._keeper.run())
            await self._services.synced.wait()
            self._start(self._pods.run())
            await self._pods.synced.wait()
            self._end_orphans()
            fresh = ready.with_suffix(".new")
            fresh.write_text(json.dumps({"port": port, "pid": os.getpid()}))
            fresh.replace(ready)
            await asyncio.Event().wait()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.stop()
            self._node.launcher.close()
            left = sum(worker.holds_resources for worker in self._workers.values())
            logger.info("node %s stops; %d pods are left running", self._config.node_name, left)

    def _on_pod(self, document: dict[str, Any], gone: bool) -> None:
        uid = document["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(document, gone)
        elif not gone:
            self._workers[uid] = worker = PodWorker(self._node, document, self._refusal_of)
            self._start(self._live(uid, worker))

    def _end_orphans(self) -> None:
        """End what runs of pods that were removed while no agent was there to see it."""
        for record in (self._config.root / "pods").glob("*/pod.json"):
            document = json.loads(record.read_text())
            uid = document["metadata"]["uid"]
            if uid not in self._workers:
                self._on_pod(document, gone=False)
                self._workers[uid].update(document, gone=True)

    async def _live(self, uid: str, worker: PodWorker) -> None:
        try:
            await worker.run()
        except Exception:
            # One pod's trouble must not take the node down; the pod stays as it is, and the log says why.
            logger.exception("pod %s", uid)
            raise
        finally:
            del self._workers[uid]

    async def _refusal_of(self, document: Any) -> tuple[str, str] | None:
        # The Node may have been labelled, or lost its devices, since it was read last.
        with contextlib.suppress(ApiError, ApiUnavailableError):
            await self._keeper.refresh()
        return self._ask(document)

    def _ask(self, document: Any) -> tuple[str, str] | None:
        others = [worker.document for worker in self._workers.values() if worker.holds_resources]
        resource = GPU if self._config.gpus else None
        return find_refusal(document, self._keeper.document, others, plugin_resource=resource)

    def _find_pod(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self._workers.values():
            metadata = worker.document["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return worker
        return None

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def run_agent(config: AgentConfig) -> None:
    """Run the node until SIGTERM or SIGINT."""
    config.root.mkdir(parents=True, exist_ok=True)
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    async with ApiClient(config) as client:
        agent = asyncio.create_task(NodeAgent(config, client).run())
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([agent, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not agent.done():
            agent.cancel()
        try:
            await agent
        except asyncio.CancelledError:
            return
