"""An API server that keeps objects by path, over real HTTP: versions, preconditions, merge patches, and refusals to
order."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.unit.cluster.kubeconfig import write_kubeconfig

from gpu_training.cluster.connection import ClusterAddress


class ObjectApi:
    """Serves what it was given; a list gives whatever lies directly under its path.

    :ivar objects: path -> document.
    :ivar refusals: (method, part of a path) -> (status, message).
    :ivar asked: method and path of every request.
    """

    def __init__(self, folder: Path) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.refusals: dict[tuple[str, str], tuple[int, str]] = {}
        self.asked: list[tuple[str, str]] = []
        self._version = 100
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        kubeconfig = folder / "objects.kubeconfig"
        write_kubeconfig(kubeconfig, self._server)
        self.address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))

    def put(self, path: str, document: dict[str, Any]) -> dict[str, Any]:
        """Keep a document in a new version of it."""
        self._version += 1
        metadata = {"uid": f"uid of {path}", **document["metadata"], "resourceVersion": str(self._version)}
        self.objects[path] = {**document, "metadata": metadata}
        return self.objects[path]

    def count(self, method: str) -> int:
        return sum(1 for asked, _ in self.asked if asked == method)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        """Give status and document of an answer."""
        self.asked.append((method, path))
        selector = [entry.partition("=") for entry in query.get("labelSelector", "").split(",") if entry]
        for (refused, part), (status, message) in self.refusals.items():
            if method == refused and part in path:
                return status, {"message": message}
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return (409, {"message": "exists"}) if path in self.objects else (201, self.put(path, body))
        before = self.objects.get(path)
        if before is None:
            below = [o for name, o in self.objects.items() if name.rpartition("/")[0] == path]
            below = [o for o in below if _is_selected(o["metadata"].get("labels", {}), selector)]
            is_list = method == "GET" and path.endswith(("/configmaps", "/jobs", "/pods"))
            return (200, {"items": below, "metadata": {}}) if is_list else (404, {"message": "not found"})
        if method == "GET":
            return 200, before
        named = body["metadata"] if method in ("PUT", "PATCH") and isinstance(body, dict) else {}
        named = body.get("preconditions", {}) if method == "DELETE" else named
        if any(named[key] != before["metadata"].get(key) for key in ("uid", "resourceVersion") if key in named):
            return 409, {"message": "the object has been modified"}
        if method == "DELETE":
            return 200, self.objects.pop(path)
        if isinstance(body, list):
            after = _patched(before, body)
            return (200, self.put(path, after)) if after is not None else (422, {"message": "a test failed"})
        return 200, self.put(path, body if method == "PUT" else _merged(before, body))


def _is_selected(labels: dict[str, str], selector: list[tuple[str, str, str]]) -> bool:
    """Whether labels have every key, with its value where one is named."""
    return all(key in labels and (not equals or labels[key] == value) for key, equals, value in selector)


def _merged(before: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """Give a document after a merge patch (RFC 7386)."""
    after = dict(before)
    for key, value in change.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = _merged(after.get(key) or {}, value) if isinstance(value, dict) else value
    return after


def _patched(before: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Give a document after a JSON patch (RFC 6902) of tests and additions; None where a test fails."""
    after = json.loads(json.dumps(before))
    for operation in operations:
        *steps, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        holder = after
        for step in steps:
            holder = holder[step]
        if operation["op"] == "add":
            holder[last] = operation["value"]
        elif holder.get(last) != operation["value"]:
            return None
    return after


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ObjectApi

    def _serve(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else None
        asked = urlsplit(self.path)
        status, document = self.api.answer(self.command, asked.path, dict(parse_qsl(asked.query)), body)
        reply = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 - named by the library

    def log_message(self, *_: object) -> None:
        pass
