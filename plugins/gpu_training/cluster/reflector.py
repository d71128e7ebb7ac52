"""Mirrors one collection of objects: a list, then watches, over and over.

https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Final, Generic, TypeVar

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.jobs import list_pages
from gpu_training.contract import Variable
from gpu_training.core.errors import ClusterError, ClusterRejected, ClusterUnavailable, GpuTrainingError

log = logging.getLogger(__name__)

WATCH_S: Final = 60
"""Length of one watch request. Short, so that a connection that died silently is noticed; the next one goes on from
the same resourceVersion and costs no list."""
SILENCE_S: Final = WATCH_S + 15.0
RESYNC_S: Final = 600.0
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 30.0
_EXPIRED: Final = 410
_REFUSALS: Final = (403, 404)

Kept = TypeVar("Kept")


class Expired(Exception):
    """The resourceVersion is too old to watch from: list again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen(Generic[Kept]):
    version: str
    kept: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a collection is asked for.

    :param page: objects of one answer to a list.
    :param resync: seconds after which everything is listed again, in case an event was lost.
    :param refused: seconds after which a collection that may not be read, or does not exist, is asked for again; None
        treats a refusal like any other fault.
    :param longest_pause: seconds between two tries after many faults.
    """

    page: int = 500
    resync: float = RESYNC_S
    refused: float | None = None
    longest_pause: float = _LONGEST_PAUSE_S


class Reflector(Generic[Kept]):
    """Mirrors one kind of object: lists, then watches. Holds of each object what `take` gives, and nothing else.

    :param path: of the collection.
    :param query: selectors, such as `{"labelSelector": "a=b"}`.
    :param take: gives what is kept of an object; called once for each state of it.
    :param changed: called with each object that is new, or of which another thing is kept than before.
    :param removed: called with each object that is no longer there, as last seen.
    :param listed: called after each list.
    :param trouble: called with why the API server can not be asked, and with None when it can again.
    """

    def __init__(
        self,
        cluster: Cluster,
        path: str,
        query: Mapping[str, str],
        *,
        take: Callable[[Document], Kept],
        changed: Callable[[Kept], None],
        removed: Callable[[Kept], None],
        listed: Callable[[], None],
        trouble: Callable[[Exception | None], None],
        pace: Pace = Pace(),
    ) -> None:
        self.is_listed = False
        self._cluster = cluster
        self._path = path
        self._query = dict(query)
        self._take = take
        self._changed = changed
        self._removed = removed
        self._listed = listed
        self._trouble = trouble
        self._pace = pace
        self._seen: dict[str, _Seen[Kept]] = {}
        self._version = ""

    def kept(self) -> tuple[Kept, ...]:
        """Give what is kept of all objects that there are now."""
        return tuple(seen.kept for seen in self._seen.values())

    async def run(self) -> None:
        """Go on until cancelled; faults are waited out."""
        resync_at, faults = 0.0, 0
        while True:
            started = monotonic()
            pause = None
            try:
                if not self._version:
                    await self._list()
                    resync_at = monotonic() + self._pace.resync * random.uniform(0.9, 1.1)  # noqa: S311 - spreads the load
                    self._trouble(None)
                await self._watch()
                if monotonic() >= resync_at:
                    self._version = ""
                # A server that ends each watch at once must not be asked without end.
                faults = 0 if monotonic() - started > 1 else faults + 1
            except Expired:
                self._version = ""
            except Exception as error:  # of whatever kind: nobody would notice that this loop had ended
                faults += 1
                pause = self._suffer(error, faults)
            if faults:
                pause = pause or min(_FIRST_PAUSE_S * 2**faults, self._pace.longest_pause)
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter

    def _suffer(self, error: Exception, faults: int) -> float | None:
        """Tell of a fault; give the pause that it needs, None for the usual one."""
        if not isinstance(error, GpuTrainingError):
            log.exception("the watch of %s broke in a way that is not foreseen", self._path)
        self._trouble(error)
        status = error.status if isinstance(error, ClusterError) else None
        # Where even a second watch from the same version breaks, a list still tells the state.
        if faults > 1 or status == _EXPIRED:
            self._version = ""
        return self._pace.refused if is_refusal(error) else None

    async def _list(self) -> None:
        fresh: dict[str, _Seen[Kept]] = {}
        version = ""
        query = {"limit": str(self._pace.page), **self._query}
        async for page in list_pages(self._cluster, self._path, doing=f"list {self._path}", query=query, tries=1):
            version = page["metadata"]["resourceVersion"]
            for item in page["items"]:
                fresh[item["metadata"]["uid"]] = self._read(item)
        before, self._seen, self._version = self._seen, fresh, version
        for uid, seen in fresh.items():
            if uid not in before or (before[uid].version != seen.version and before[uid].kept != seen.kept):
                self._changed(seen.kept)
        for uid in before.keys() - fresh.keys():
            self._removed(before[uid].kept)
        self.is_listed = True
        self._listed()

    def _read(self, item: Document) -> _Seen[Kept]:
        # First the version: what is kept may be the document itself, made smaller.
        version = _version_of(item)
        return _Seen(version=version, kept=self._take(item))

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "true",
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
        uid, seen = item["metadata"]["uid"], self._read(item)
        before = self._seen.pop(uid, None)
        if kind == "DELETED":
            self._removed(seen.kept)
            return
        self._seen[uid] = seen
        if before is None or before.kept != seen.kept:
            self._changed(seen.kept)


def is_refusal(error: Exception | None) -> bool:
    """Tell whether a collection may not be read, or does not exist: asking again soon changes nothing."""
    return isinstance(error, ClusterRejected) and error.status in _REFUSALS


def _version_of(document: Document) -> str:
    return str(document["metadata"]["resourceVersion"])


def slim(document: Document) -> Document:
    """Drop what nobody reads and what holds secrets: field managers, environments, arguments. What decides where a pod
    may run stays, in the template of a Job as well: a Job that waits may have no pod. So does the MLflow run that its
    result has to name."""
    document["metadata"].pop("managedFields", None)
    spec = document.get("spec", {})
    if "template" in spec:
        spec["template"] = {"spec": _slim_pod_spec(spec["template"].get("spec", {}))}
    _slim_pod_spec(spec)
    return document


def _slim_pod_spec(spec: Document) -> Document:
    spec.pop("volumes", None)
    spec.pop("ephemeralContainers", None)
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        run = [entry for entry in container.get("env") or () if entry.get("name") == Variable.MLFLOW_RUN_ID]
        for name in container.keys() - {"name", "resources", "restartPolicy"}:
            del container[name]
        if run:
            container["env"] = run
    return spec
