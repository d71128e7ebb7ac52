"""A way to a server on which a request can be stopped and let go on: before it gets there, or its answer on the way.

`sandbox.proxy` fails as its rules say; this one waits until it is told, which is what a death in the middle needs.
"""

from __future__ import annotations

import http.client
import re
import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOST = "127.0.0.1"
_POLL_S = 0.05
_CHUNK = 1 << 16
_HOP_HEADERS = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade"})
_NO_BODY = (http.client.NO_CONTENT, http.client.NOT_MODIFIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Which requests stop.

    :param path: regular expression that path and query match from their beginning.
    :param answer: the server does what was asked, and its answer stops.
    """

    method: str
    path: str
    answer: bool

    def concerns(self, method: str, target: str) -> bool:
        return method == self.method and re.match(self.path, target) is not None


class Gate:
    """A server in threads of this process, in front of another one.

    :param upstream: `http://host:port` or `https://host:port` of the other.
    :param trust: for an upstream with https.
    :param serving: where clients are to come with https.
    """

    def __init__(
        self, upstream: str, hold: Hold, *, trust: ssl.SSLContext | None = None, serving: ssl.SSLContext | None = None
    ) -> None:
        self._upstream = urlsplit(upstream)
        self._trust = trust
        self._hold = hold
        self._holding = threading.Event()
        self._open = threading.Event()
        self._drops = False
        gate = self

        class Handler(_Handler):
            owner = gate

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        # What its clients send after they were killed is no news.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        if serving is not None:
            # The handshake is the business of the request's thread: one silent client must not keep others out.
            self._server.socket = serving.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="gate", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def holds_one(self) -> bool:
        """Whether a request has been stopped; where its answer is, the server has done what it asked."""
        return self._holding.is_set()

    def release(self, *, drop: bool) -> None:
        """Let everything pass from now on.

        :param drop: what is stopped now goes nowhere: its client is dead.
        """
        self._drops = drop
        self._open.set()

    def stop(self) -> None:
        self.release(drop=True)
        self._server.shutdown()
        self._server.server_close()

    def concerns(self, method: str, target: str) -> bool:
        return not self._open.is_set() and self._hold.concerns(method, target)

    @property
    def stops_answers(self) -> bool:
        return self._hold.answer

    def wait(self, client: socket.socket) -> bool:
        """Stop here; tell whether to go on, which is not so when the client has gone or everything is dropped."""
        self._holding.set()
        while not self._open.wait(_POLL_S):
            if _has_gone(client):
                return False
        return not self._drops and not _has_gone(client)

    def connect(self) -> http.client.HTTPConnection:
        host = self._upstream.netloc
        if self._upstream.scheme == "https":
            return http.client.HTTPSConnection(host, context=self._trust)
        return http.client.HTTPConnection(host)


class _Handler(BaseHTTPRequestHandler):
    owner: Gate
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._pass_on()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the base class's names

    def _pass_on(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        stopped = self.owner.concerns(self.command, self.path)
        if stopped and not self.owner.stops_answers and not self.owner.wait(self.connection):
            self.close_connection = True
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_HEADERS}
        with closing(self.owner.connect()) as connection:
            connection.request(self.command, self.path, body, headers)
            reply = connection.getresponse()
            if stopped and self.owner.stops_answers and not self.owner.wait(self.connection):
                self.close_connection = True
                return
            self._answer(reply)

    def _answer(self, reply: http.client.HTTPResponse) -> None:
        self.send_response_only(reply.status, reply.reason)
        for name, value in reply.headers.items():
            if name.lower() not in _HOP_HEADERS:
                self.send_header(name, value)
        length = reply.headers.get("Content-Length")
        chunked = length is None and reply.status not in _NO_BODY and self.command != "HEAD"
        if length is not None:
            self.send_header("Content-Length", length)
        elif chunked:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in _pieces(reply):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            self.wfile.write(b"0\r\n\r\n")


def _pieces(reply: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := reply.read1(_CHUNK):
        yield piece


def _has_gone(client: socket.socket) -> bool:
    poll = select.poll()
    poll.register(client.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))
