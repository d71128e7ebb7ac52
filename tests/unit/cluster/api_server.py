"""An API server that answers from a script, over real HTTP: for what a real one does once in months."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.unit.cluster.kubeconfig import write_kubeconfig

Query = dict[str, str]


class ScriptedApi:
    """Serves one collection.

    :ivar lists: answers to lists, in turn; the last one repeats.
    :ivar watches: lines of each watch, in turn; then watches stay open and silent.
    :ivar queries: of every request.
    """

    def __init__(self, folder: Path) -> None:
        self.lists: list[dict[str, Any]] = []
        self.watches: list[list[dict[str, Any] | bytes]] = []
        self.queries: list[Query] = []
        self.credentials: list[str | None] = []
        self.ended = threading.Event()
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.kubeconfig = folder / "scripted.kubeconfig"
        self.write_kubeconfig(token="first")

    def write_kubeconfig(self, *, token: str) -> None:
        write_kubeconfig(self.kubeconfig, self._server, token=token)

    def stop(self) -> None:
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()

    def asked(self, matches: Callable[[Query], bool]) -> int:
        return sum(1 for query in self.queries if matches(query))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ScriptedApi

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        self.api.queries.append(query)
        self.api.credentials.append(self.headers.get("Authorization"))
        if query.get("watch") == "true":
            self._watch()
        else:
            self._answer(self.api.lists.pop(0) if len(self.api.lists) > 1 else self.api.lists[0])

    def _answer(self, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(int(document.get("code", 200)))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not self.api.watches:
            self.api.ended.wait(30)
        for line in self.api.watches.pop(0) if self.api.watches else []:
            content = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass
