"""Logs of many pods over real HTTP, each as a script writes it: floods, ends, and what a client asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from tests.unit.cluster.kubeconfig import write_kubeconfig

from gpu_training.cluster.connection import ClusterAddress

Write = Callable[[bytes], object]
Script = Callable[[Mapping[str, str], Write], object]
"""Writes one answer's body, given the request's query; the log's stream ends when it returns."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


class ScriptedLogs:
    """An API server whose pods' logs are scripts.

    :ivar scripts: pod's name -> script; a pod that has none has an empty log.
    :ivar asked: pod's name and query of each request for a log.
    :ivar over: set when the server stops, so that scripts end.
    """

    def __init__(self, folder: Path) -> None:
        self.scripts: dict[str, Script] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.over = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.flush()
                url = urlsplit(self.path)
                if not url.path.endswith("/log"):
                    self.wfile.write(b"{}")
                    return
                pod, query = url.path.split("/")[-2], dict(parse_qsl(url.query))
                server.asked.append((pod, query))
                with suppress(OSError):  # the client went away
                    server.scripts.get(pod, lambda *_: None)(query, self.wfile.write)

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        kubeconfig = folder / "scripted-logs.kubeconfig"
        write_kubeconfig(kubeconfig, self._server)
        self.address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))

    def queries(self, pod: str) -> list[dict[str, str]]:
        return [query for name, query in list(self.asked) if name == pod]

    def stop(self) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
