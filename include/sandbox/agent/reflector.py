"""A list-and-watch: what the API server has of one kind, kept up to date over every kind of interruption."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.agent.api import ApiClient, ApiError, ApiUnavailableError, retry_pause

Document = dict[str, Any]

WATCH_S = 240

logger = logging.getLogger(__name__)


class Reflector:
    """Follows the objects of one path.

    :param on_change: called with each object when it appears or changes, and once more with `gone=True`.
    """

    def __init__(
        self, client: ApiClient, path: str, params: Mapping[str, str], on_change: Callable[[Document, bool], None]
    ) -> None:
        self._client = client
        self._path = path
        self._params = dict(params)
        self._on_change = on_change
        self.objects: dict[str, Document] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """List and watch until cancelled."""
        attempt = 0
        version: str | None = None
        while True:
            try:
                if version is None:
                    version = await self._list()
                attempt = 0
                async for event in self._client.watch(
                    self._path,
                    {**self._params, "resourceVersion": version, "allowWatchBookmarks": "true"},
                    seconds=WATCH_S + random.randrange(60),  # noqa: S311
                ):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._apply(event["object"], gone=event["type"] == "DELETED")
            except (ApiError, ApiUnavailableError) as error:
                # Whatever the reason, what was missed shows in a new list; 410 says that nothing else would do.
                version = None
                attempt += 1
                logger.info("watch of %s interrupted, listing again: %s", self._path, error)
                await retry_pause(attempt, first_s=0.05, longest_s=2.0)

    async def _list(self) -> str:
        answer = await self._client.request("GET", self._path, params=self._params)
        kind = answer["kind"].removesuffix("List")
        found = {item["metadata"]["uid"]: {"kind": kind, "apiVersion": "v1", **item} for item in answer["items"]}
        for uid in set(self.objects) - set(found):
            self._apply(self.objects[uid], gone=True)
        for item in sorted(found.values(), key=lambda item: item["metadata"]["creationTimestamp"]):
            self._apply(item, gone=False)
        self.synced.set()
        version: str = answer["metadata"]["resourceVersion"]
        return version

    def _apply(self, document: Document, *, gone: bool) -> None:
        uid = document["metadata"]["uid"]
        if gone:
            self.objects.pop(uid, None)
        else:
            self.objects[uid] = document
        self._on_change(document, gone)
