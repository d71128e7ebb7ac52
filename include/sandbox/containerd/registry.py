"""A registry that has nothing: whatever it is asked for is `not found`, and no network is needed to learn that."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HOST = "127.0.0.1"
CONFIGURATION = """\
server = "http://{address}"
[host."http://{address}"]
  capabilities = ["pull", "resolve"]
"""


class EmptyRegistry(ThreadingHTTPServer):
    """Listens on a free port of the loopback address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Handler)

    def configure(self, folder: Path) -> None:
        """Have containerd ask here for all registries; the folder is its `config_path`."""
        target = folder / "_default"
        target.mkdir(parents=True, exist_ok=True)
        (target / "hosts.toml").write_text(CONFIGURATION.format(address=f"{HOST}:{self.server_port}"))


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(HTTPStatus.NOT_FOUND)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815 - the name is the handler's

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: the kubelet tells of it."""
