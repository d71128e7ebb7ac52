"""An API server whose collections can be listed and watched, over real HTTP, and whose refusals are made to order."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.unit.cluster.kubeconfig import write_kubeconfig

from gpu_training.cluster.connection import ClusterAddress

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    path: str
    query: dict[str, str]

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


@dataclass(slots=True)
class _Collection:
    objects: dict[str, Document] = field(default_factory=dict)
    news: list[tuple[int, Document]] = field(default_factory=list)


class WatchedApi:
    """Serves collections by their path; one that was never named is unknown (404), as is any other path.

    :ivar refusals: path -> (status, message); an empty path refuses everything.
    :ivar documents: path -> answer, for what is no collection.
    :ivar asked: every request.
    """

    def __init__(self, folder: Path) -> None:
        self.refusals: dict[str, tuple[int, str]] = {}
        self.documents: dict[str, Document] = {}
        self.asked: list[Asked] = []
        self.changed = threading.Condition()
        self.stopped = False
        self.watching = 0
        self.version = 100
        self._collections: dict[str, _Collection] = {}
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        kubeconfig = folder / "watched.kubeconfig"
        write_kubeconfig(kubeconfig, self._server)
        self.address = ClusterAddress(conn_id=None, config_file=str(kubeconfig))

    def serve(self, *paths: str) -> None:
        """Know these collections, empty at first."""
        for path in paths:
            self._collections.setdefault(path, _Collection())

    def put(self, path: str, document: Document) -> None:
        """Put an object into a collection, or another state of it; its name is its key."""
        self._change(path, document["metadata"]["name"], document)

    def remove(self, path: str, name: str) -> None:
        self._change(path, name, None)

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def count(self, part: str = "", *, watch: bool | None = None) -> int:
        """Count the requests for paths that contain a text."""
        return sum(1 for each in list(self.asked) if part in each.path and watch in (None, each.is_watch))

    def page(self, path: str) -> Document | None:
        """Give the answer to a list."""
        with self.changed:
            collection = self._collections.get(path)
            if collection is None:
                return None
            items = list(collection.objects.values())
            return {"metadata": {"resourceVersion": str(self.version)}, "items": items}

    def news(self, path: str, since: int) -> list[tuple[int, Document]]:
        """Give the events after a version; the lock is held."""
        return [entry for entry in self._collections[path].news if entry[0] > since]

    def refusal(self, path: str) -> tuple[int, str] | None:
        return self.refusals.get(path) or self.refusals.get("")

    def _change(self, path: str, name: str, document: Document | None) -> None:
        with self.changed:
            self.version += 1
            self.serve(path)
            objects = self._collections[path].objects
            kind = "DELETED" if document is None else "MODIFIED" if name in objects else "ADDED"
            state = objects[name] if document is None else document
            metadata = {"uid": f"uid-{name}", **state["metadata"], "resourceVersion": str(self.version)}
            objects[name] = {**state, "metadata": metadata}
            self._collections[path].news.append((self.version, {"type": kind, "object": objects[name]}))
            if document is None:
                del objects[name]
            self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: WatchedApi

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        query = dict(parse_qsl(asked.query))
        self.api.asked.append(Asked(path=asked.path, query=query))
        refusal = self.api.refusal(asked.path)
        document = self.api.documents.get(asked.path)
        page = self.api.page(asked.path)
        if refusal is not None:
            self._answer(refusal[0], {"kind": "Status", "message": refusal[1]})
        elif document is not None:
            self._answer(200, document)
        elif page is None:
            self._answer(404, {"kind": "Status", "message": "the server could not find the requested resource"})
        elif query.get("watch") == "true":
            self._watch(asked.path, int(query["resourceVersion"]), monotonic() + float(query["timeoutSeconds"]))
        else:
            self._answer(200, page)

    def _answer(self, status: int, document: Document) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self, path: str, since: int, until: float) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        api = self.api
        with api.changed:
            api.watching += 1
        try:
            while not api.stopped and monotonic() < until:
                for version, event in self._wait(path, since, until):
                    content = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
                    since = version
            self.wfile.write(b"0\r\n\r\n")
        except ConnectionError:
            self.close_connection = True  # whoever watched is gone
        finally:
            with api.changed:
                api.watching -= 1

    def _wait(self, path: str, since: int, until: float) -> list[tuple[int, Document]]:
        with self.api.changed:
            self.api.changed.wait_for(lambda: self.api.stopped or self.api.news(path, since), until - monotonic())
            return self.api.news(path, since)

    def log_message(self, *_: object) -> None:
        pass
