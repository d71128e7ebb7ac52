"""A way to the API server that can be made to fail: answers of its own, streams that are cut."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import yaml

Fault = Callable[[str, str], int | None]
"""Takes method and target, gives the status to answer with instead of asking the API server; 0 drops the connection."""

_HOP_HEADERS = frozenset({"connection", "transfer-encoding", "content-length", "host", "accept-encoding"})


class FaultyProxy:
    """Forwards to an API server.

    :ivar fault: asked for every request.
    :ivar stream_limit: bytes after which a watch or a followed log is cut; None for no limit.
    :ivar lose_answers: how many answers to a POST are still to be dropped after the API server has obeyed.
    :ivar requests: `METHOD target` of every request so far.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._target = urlsplit(cluster["server"]).netloc
        self._tls = ssl.create_default_context(cadata=_authority(cluster))
        self.fault: Fault = lambda method, target: None
        self.stream_limit: int | None = None
        self.lose_answers = 0
        self.requests: list[str] = []
        self._streams: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        self.kubeconfig = folder / "proxy.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.cut_streams()

    def cut_streams(self) -> None:
        """Break every watch and every followed log that is open now."""
        for stream in list(self._streams):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def asked(self, part: str) -> int:
        """How many requests had this in them."""
        return sum(part in request for request in self.requests)

    def answer_to(self, method: str, target: str) -> int | None:
        self.requests.append(f"{method} {target}")
        return self.fault(method, target)

    def open(self) -> http.client.HTTPSConnection:
        """Give a connection to the API server."""
        return http.client.HTTPSConnection(self._target, context=self._tls, timeout=120)

    @contextmanager
    def streaming(self, connection: socket.socket) -> Iterator[None]:
        self._streams.add(connection)
        try:
            yield
        finally:
            self._streams.discard(connection)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultyProxy

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status = self.proxy.answer_to(self.command, self.path)
        if status == 0:
            self.close_connection = True
            return
        if status is not None:
            said = json.dumps({"kind": "Status", "code": status, "message": "said by the proxy"})
            self._answer(status, {"Content-Type": "application/json"}, said.encode())
            return
        upstream = self.proxy.open()
        try:
            headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_HEADERS}
            upstream.request(self.command, self.path, body or None, headers)
            self._copy(upstream.getresponse())
        except OSError:
            self.close_connection = True
        finally:
            upstream.close()

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815 - names of the standard library

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _copy(self, response: http.client.HTTPResponse) -> None:
        headers = {name: value for name, value in response.getheaders() if name.lower() not in _HOP_HEADERS}
        if self.command == "POST" and self.proxy.lose_answers:
            self.proxy.lose_answers -= 1
            self.close_connection = True
            return
        if "watch=true" not in self.path and "follow=true" not in self.path:
            self._answer(response.status, headers, response.read())
            return
        self.send_response(response.status)
        for name, value in {**headers, "Transfer-Encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        with self.proxy.streaming(self.connection):
            self._stream(response)

    def _stream(self, response: http.client.HTTPResponse) -> None:
        left = self.proxy.stream_limit
        while chunk := response.read1(65536):
            piece = chunk if left is None else chunk[:left]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
            if left is not None and (left := left - len(piece)) <= 0:
                self.close_connection = True
                return
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass


def _authority(cluster: dict[str, str]) -> str:

    if data := cluster.get("certificate-authority-data"):
        return base64.b64decode(data).decode()
    return Path(cluster["certificate-authority"]).read_text()
