"""The kubeconfig by which a client finds a server of a test's own."""

from __future__ import annotations

from http.server import HTTPServer
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, server: HTTPServer, *, token: str = "t") -> None:  # noqa: S107 - opens nothing
    """Write the kubeconfig of a server that listens on this machine without TLS."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "it", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(document))
