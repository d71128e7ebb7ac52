"""Mirrors one collection of objects: a list, then watches, over and over.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable
from time import monotonic
from typing import Final

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.jobs import list_pages
from gpu_training.core.errors import ClusterError, ClusterUnavailable, GpuTrainingError

log = logging.getLogger(__name__)

WATCH_S: Final = 60
"""Length of one watch request. Short, so that a connection that died silently is noticed; the next one goes on from
the same resourceVersion and costs no list."""
SILENCE_S: Final = WATCH_S + 15.0
RESYNC_S: Final = 600.0
"""After this long everything is listed again, in case an event was lost."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_EXPIRED: Final = 410


class Expired(Exception):
    """The resourceVersion is too old to watch from: list again."""


class Reflector:
    """Mirrors one kind of object: lists, then watches.

    :param path: of the collection.
    :param changed: called with each object that is new or has changed.
    :param removed: called with each object that is no longer there, as last seen.
    :param listed: called after each list.
    :param trouble: called with why the API server can not be asked, and with None when it can again.
    """

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        selector: str,
        *,
        changed: Callable[[Document], None],
        removed: Callable[[Document], None],
        listed: Callable[[], None],
        trouble: Callable[[str | None], None],
    ) -> None:
        self.is_listed = False
        self._cluster = cluster
        self._path = path
        self._selector = selector
        self._changed = changed
        self._removed = removed
        self._listed = listed
        self._trouble = trouble
        self._seen: dict[str, Document] = {}
        self._version = ""

    async def run(self) -> None:
        """Go on until cancelled; faults are waited out."""
        resync_at, faults = 0.0, 0
        while True:
            started = monotonic()
            try:
                if not self._version:
                    await self._list()
                    resync_at = monotonic() + RESYNC_S * random.uniform(0.9, 1.1)  # noqa: S311 - spreads the load
                    self._trouble(None)
                await self._watch()
                if monotonic() >= resync_at:
                    self._version = ""
                # A server that ends each watch at once must not be asked without end.
                faults = 0 if monotonic() - started > 1 else faults + 1
            except Expired:
                self._version = ""
            except Exception as error:  # of whatever kind: nobody would notice that this loop had ended
                if not isinstance(error, GpuTrainingError):
                    log.exception("the watch of %s broke in a way that is not foreseen", self._path)
                faults += 1
                self._trouble(str(error))
                # Where even a second watch from the same version breaks, a list still tells the state.
                if faults > 1 or (isinstance(error, ClusterError) and error.status == _EXPIRED):
                    self._version = ""
            if faults:
                pause = min(_FIRST_PAUSE_S * 2**faults, _LONGEST_PAUSE_S)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    async def _list(self) -> None:
        fresh: dict[str, Document] = {}
        version = ""
        query = {"labelSelector": self._selector}
        async for page in list_pages(self._cluster, self._path, doing=f"list {self._path}", query=query, tries=1):
            version = page["metadata"]["resourceVersion"]
            for item in page["items"]:
                fresh[item["metadata"]["uid"]] = slim(item)
        before, self._seen, self._version = self._seen, fresh, version
        for uid, document in fresh.items():
            if uid not in before or _version_of(before[uid]) != _version_of(document):
                self._changed(document)
        for uid in before.keys() - fresh.keys():
            self._removed(before[uid])
        self.is_listed = True
        self._listed()

    async def _watch(self) -> None:
        query = {
            "watch": "true",
            "labelSelector": self._selector,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        async with self._cluster.stream(self._path, doing=f"watch {self._path}", query=query, idle=SILENCE_S) as body:
            self._trouble(None)
            rest = b""
            async for chunk in body.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        self._apply(line)

    def _apply(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as exc:
            raise ClusterUnavailable(f"watch of {self._path}: an event that can not be read: {exc}") from exc
        if kind == "ERROR":
            if item.get("code") == _EXPIRED:
                raise Expired
            raise ClusterUnavailable(f"watch of {self._path}: {item.get('message')}", status=item.get("code"))
        self._version = _version_of(item)
        if kind == "BOOKMARK":
            return
        uid, document = item["metadata"]["uid"], slim(item)
        if kind == "DELETED":
            self._seen.pop(uid, None)
            self._removed(document)
        else:
            self._seen[uid] = document
            self._changed(document)


def _version_of(document: Document) -> str:
    return str(document["metadata"]["resourceVersion"])


def slim(document: Document) -> Document:
    """Drop what nobody reads and what holds secrets: field managers, the pod template, environments."""
    document["metadata"].pop("managedFields", None)
    spec = document.get("spec", {})
    spec.pop("template", None)
    spec.pop("volumes", None)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for name in container.keys() - {"name", "resources"}:
            del container[name]
    return document
