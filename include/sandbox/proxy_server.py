"""A way to the API server that fails as its script says: :mod:`sandbox.proxy_script`.

It ends TLS with a certificate of the cluster and passes bearer tokens on. A client certificate can not be passed on, so
users who have one can not come this way; nor can upgraded connections (exec, attach, port-forward). HTTP/1.1 only.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from sandbox.certificates import KeyPair
from sandbox.control_plane import HOST
from sandbox.proxy_script import Action, Rule, Script, stream_of

CONNECT_S = 10.0
CHUNK = 1 << 16

_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade"})

Told = Callable[[str, str, Rule | None], None]


class ProxyServer:
    """The server itself, in a running event loop.

    :param target: `https://host:port` of the API server, with what is needed to trust it.
    :param script: gives the script of the moment; requests in flight keep their rule.
    :param told: called with method, target and rule of each request, before anything becomes of it.
    """

    def __init__(
        self, target: str, trust: ssl.SSLContext, serving: KeyPair, script: Callable[[], Script], told: Told
    ) -> None:
        self._script = script
        self._target = target
        self._trust = trust
        self._serving = serving
        self._told = told
        self._streams: dict[int, web.BaseRequest] = {}
        self._runner: web.ServerRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def start(self, port: int = 0) -> int:
        """Listen; give the port."""
        self._session = aiohttp.ClientSession(
            # Nothing is pooled: what befalls one request must not befall another.
            connector=aiohttp.TCPConnector(ssl=self._trust, limit=0, force_close=True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        )
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._serving.certificate, self._serving.key)
        await web.TCPSite(self._runner, HOST, port, ssl_context=tls).start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        """Stop listening; what is open breaks."""
        self.cut_streams()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def cut_streams(self) -> int:
        """Break every watch and followed log that is open now, stalled ones too; give how many there were."""
        streams = list(self._streams.values())
        for request in streams:
            _break_off(request)
        return len(streams)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        target = request.raw_path
        rule = self._script().decide(request.method, target)
        self._told(request.method, target, rule)
        if rule is not None and rule.delay_s:
            await asyncio.sleep(rule.delay_s)
        if stream_of(request.method, target) is None:
            return await self._act(request, rule)
        self._streams[id(request)] = request
        try:
            return await self._act(request, rule)
        finally:
            del self._streams[id(request)]

    async def _act(self, request: web.BaseRequest, rule: Rule | None) -> web.StreamResponse:
        action = Action.FORWARD if rule is None else rule.action
        if action is Action.RESET:
            return _break_off(request)
        if rule is not None and action in (Action.ANSWER, Action.EXPIRE):
            return _answer(rule)
        try:
            return await self._forward(request, rule)
        except (aiohttp.ClientError, TimeoutError):
            # As it would be without us: no API server, no answer.
            return _break_off(request)

    async def _forward(self, request: web.BaseRequest, rule: Rule | None) -> web.StreamResponse:
        assert self._session is not None  # noqa: S101 - start() opened it
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS]
        body = await request.content.read() if request.body_exists else None
        url = URL(f"{self._target}{request.raw_path}", encoded=True)
        async with self._session.request(
            request.method, url, headers=headers, data=body, allow_redirects=False
        ) as reply:
            if rule is not None and rule.action is Action.LOSE_REPLY:
                await reply.read()
                return _break_off(request)
            if rule is not None and rule.action is Action.STALL and rule.after_bytes is None:
                await reply.read()
                return await _fall_silent()
            try:
                async with asyncio.timeout(None if rule is None else rule.after_s):
                    return await self._copy(request, reply, rule)
            except TimeoutError:
                return _close(request)

    async def _copy(
        self, request: web.BaseRequest, reply: aiohttp.ClientResponse, rule: Rule | None
    ) -> web.StreamResponse:
        answer = web.StreamResponse(status=reply.status, reason=reply.reason)
        for name, value in reply.headers.items():
            if name.lower() not in _HOP_HEADERS:
                answer.headers.add(name, value)
        if (length := reply.headers.get("Content-Length")) is not None:
            answer.content_length = int(length)
        else:
            answer.enable_chunked_encoding()
        await answer.prepare(request)
        async for piece in _pieces(reply, None if rule is None else rule.after_bytes):
            if piece is None:
                if rule is not None and rule.action is Action.STALL:
                    await _fall_silent()
                return _close(request)
            await answer.write(piece)
        await answer.write_eof()
        return answer


async def _pieces(reply: aiohttp.ClientResponse, limit: int | None) -> AsyncIterator[bytes | None]:
    """Give the body as it comes; None where the limit is reached."""
    left = limit
    while left is None or left > 0:
        piece = await reply.content.read(CHUNK) if left is None else await reply.content.read(min(left, CHUNK))
        if not piece:
            return
        yield piece
        left = None if left is None else left - len(piece)
    yield None


async def _fall_silent() -> web.StreamResponse:
    """Wait until the client gives up, whereupon this is cancelled."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")


def _answer(rule: Rule) -> web.Response:
    document: dict[str, Any] = rule.status_document()
    if rule.action is Action.EXPIRE:
        event = {"type": "ERROR", "object": document}
        return web.Response(text=json.dumps(event) + "\n", content_type="application/json")
    headers = {} if rule.retry_after_s is None else {"Retry-After": str(rule.retry_after_s)}
    return web.Response(
        status=rule.status or 0, text=json.dumps(document), content_type="application/json", headers=headers
    )


def _close(request: web.BaseRequest) -> web.StreamResponse:
    """Close the client's connection once what was written is sent; the answer given is never sent."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def _break_off(request: web.BaseRequest) -> web.StreamResponse:
    """Reset the client's connection; the answer given is never sent."""
    transport = request.transport
    if transport is not None:
        # A transport over TLS has no socket any more when the client has closed its end.
        if (connection := transport.get_extra_info("socket")) is not None:
            with suppress(OSError):
                # A close that lingers for no time is a reset: socket(7).
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()
