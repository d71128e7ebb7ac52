"""The node's own HTTPS server: the part of the kubelet's API that serves logs, for the API server alone."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable

from aiohttp import web

from sandbox.agent.config import AgentConfig
from sandbox.agent.logs import LogOptionError, LogOptions, read_log
from sandbox.agent.order_server import OrderServer
from sandbox.agent.pods import PodWorker
from sandbox.agent.states import ContainerView, Running, Terminated, Waiting

FindPod = Callable[[str, str], PodWorker | None]

_PULLING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}

logger = logging.getLogger(__name__)


class LogServer:
    """Serves `/containerLogs/<namespace>/<pod>/<container>` and `/healthz` to clients of `client_ca_file`.

    :param find_pod: gives the pod of a namespace and name on this node.
    :param orders: serves what else there is.
    """

    def __init__(self, config: AgentConfig, find_pod: FindPod, orders: OrderServer) -> None:
        self._config = config
        self._find_pod = find_pod
        self._orders = orders
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; return the port."""
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        self._orders.add_to(application)
        application.router.add_route("*", "/{rest:.*}", self._not_here)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self._config.client_ca_file))
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_cert_chain(self._config.serving_cert, self._config.serving_key)
        site = web.TCPSite(self._runner, self._config.address, self._config.port, ssl_context=tls)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Stop listening; what is being followed ends."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _not_here(self, request: web.Request) -> web.Response:
        return web.Response(status=501, text=f"nodes of kind process serve logs, not {request.path}")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, name, container = (request.match_info[key] for key in ("namespace", "pod", "container"))
        pod = self._find_pod(namespace, name)
        if pod is None:
            return web.Response(status=404, text=f'pod "{namespace}/{name}" not found')
        runner = pod.container(container)
        if runner is None:
            return web.Response(status=404, text=f'container "{container}" not found in pod "{name}"')
        try:
            options = LogOptions.parse(request.query, now_ns=time.time_ns())
        except LogOptionError as error:
            return web.Response(status=422, text=str(error))
        if pod.files_removed:
            # Measured: a kubelet answers 200 and this text once the container is gone and the pod's object is not.
            return web.Response(text=f"unable to retrieve container logs for {runner.view.container_id}")
        if refusal := find_log_refusal(runner.view, name, previous=options.previous):
            return web.Response(status=400, text=refusal)
        path, number = runner.log_of(previous=options.previous), runner.view.restart_count
        if options.previous and runner.view.last and not path.exists():
            return web.Response(text=f"unable to retrieve container logs for {runner.view.last.container_id}")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            async for data in read_log(
                path,
                options,
                running=lambda: runner.running and not options.previous and runner.view.restart_count == number,
            ):
                await response.write(data)
        except ConnectionError:
            return response
        await response.write_eof()
        return response


def find_log_refusal(view: ContainerView, pod: str, *, previous: bool) -> str | None:
    """Return why there is no log of a container to read, in the kubelet's words, or None. Pure."""
    what = f'container "{view.name}" in pod "{pod}"'
    if previous:
        known = view.last is not None and view.last.container_id
        return None if known else f'previous terminated container "{view.name}" in pod "{pod}" not found'
    match view.state:
        case Running():
            return None
        case Terminated():
            known = view.state.container_id or (view.last is not None and view.last.container_id)
            return None if known else f"{what} is terminated"
        case Waiting():
            reason = view.state.reason
            if view.last is not None:
                return None if view.last.container_id else f"{what} is terminated"
            return f"{what} is waiting to start: {_PULLING.get(reason, reason)}"
