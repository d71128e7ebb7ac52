"""A kubelet's logs over real HTTP, as an API server hands them on: said, cut, and refused to order."""

from __future__ import annotations

import queue
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import time

from tests.unit.cluster.kubeconfig import write_kubeconfig

from gpu_training.cluster.connection import ClusterAddress


class LogServer:
    """Serves the log of every container, as it is said, until it is cut.

    :ivar refused: whether a log can not be opened.
    :ivar refusal: with which status it is refused.
    :ivar refusals: how often one was.
    :ivar opened: how often one was opened.
    """

    def __init__(self, folder: Path) -> None:
        self.refused = False
        self.refusal = 500
        self.refusals = 0
        self.opened = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(server.refusal if server.refused else 200)
                self.end_headers()
                self.wfile.flush()
                if server.refused:
                    server.refusals += 1
                else:
                    server.opened += 1
                    while (line := server._lines.get()) is not None:
                        self.wfile.write(line)
                        self.wfile.flush()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        kubeconfig = folder / "logs.kubeconfig"
        write_kubeconfig(kubeconfig, self._server)
        self.address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))

    def say(self, text: str, *, ago: float = 0.0) -> None:
        stamp = datetime.fromtimestamp(time() - ago, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.say_at(stamp, text)

    def say_at(self, stamp: str, text: str) -> None:
        self._lines.put(f"{stamp} {text}\n".encode())

    def cut(self) -> None:
        self._lines.put(None)

    def stop(self) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()
