"""The part of the node's server that takes orders for faults, from the same clients as the rest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from sandbox.agent.node import PRESSURES
from sandbox.agent.orders import ContainerEnd, ImageFault, Orders, PodEnd
from sandbox.agent.pods import PodWorker

FindPod = Callable[[str, str], PodWorker | None]
Handler = Callable[[dict[str, Any]], Awaitable[None]]


class OrderServer:
    """Serves `PUT /faults/pressure` and `/faults/image`, `POST /faults/container` and `/faults/pod`; JSON documents.

    :param refresh: has the Node's status written.
    """

    def __init__(self, orders: Orders, find_pod: FindPod, refresh: Callable[[], Awaitable[None]]) -> None:
        self._orders = orders
        self._find_pod = find_pod
        self._refresh = refresh

    def add_to(self, application: web.Application) -> None:
        """Add the routes."""
        for method, path, handler in (
            ("PUT", "/faults/pressure", self._press),
            ("PUT", "/faults/image", self._fault_image),
            ("POST", "/faults/container", self._end_container),
            ("POST", "/faults/pod", self._end_pod),
        ):
            application.router.add_route(method, path, _answering(handler))

    async def _press(self, document: dict[str, Any]) -> None:
        pressure = frozenset(document["conditions"])
        if unknown := sorted(pressure - set(PRESSURES)):
            raise ValueError(f"condition {unknown[0]!r} is no pressure; known are {', '.join(PRESSURES)}")
        self._orders.pressure = pressure
        await self._refresh()

    async def _fault_image(self, document: dict[str, Any]) -> None:
        fault = ImageFault(refusal=document["refusal"], delay_s=document["delay_s"])
        if fault == ImageFault():
            self._orders.images.pop(document["image"], None)
        else:
            self._orders.images[document["image"]] = fault

    async def _end_container(self, document: dict[str, Any]) -> None:
        worker, name = self._pod(document), document["container"]
        runner = worker.container(name or worker.document["spec"]["containers"][0]["name"])
        if runner is None or not runner.running:
            raise LookupError(f"container {name!r} of pod {document['pod']} does not run")
        end = ContainerEnd(exit_code=document["exit_code"], reason=document["reason"], message=document["message"])
        self._orders.containers[runner.view.container_id] = end
        runner.kill()

    async def _end_pod(self, document: dict[str, Any]) -> None:
        worker = self._pod(document)
        end = PodEnd(reason=document["reason"], message=document["message"], grace_s=document["grace_s"])
        self._orders.pods[worker.document["metadata"]["uid"]] = end
        worker.update(worker.document, gone=False)

    def _pod(self, document: dict[str, Any]) -> PodWorker:
        worker = self._find_pod(document["namespace"], document["pod"])
        if worker is None or not worker.holds_resources:
            raise LookupError(f"pod {document['namespace']}/{document['pod']} does not run on this node")
        return worker


def _answering(handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        try:
            await handler(await request.json())
        except LookupError as error:
            return web.Response(status=404, text=str(error.args[0]))
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        return web.json_response({})

    return answer
