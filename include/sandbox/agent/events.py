"""Events of the node: what a kubelet tells about pods, in its words."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

from sandbox.agent.api import MERGE_PATCH, ApiClient, ApiError, ApiUnavailableError, retry_pause
from sandbox.agent.status import format_time

Document = Mapping[str, Any]
Severity = Literal["Normal", "Warning"]

COMPONENT = "kubelet"
"""Who the events come from: readers of events look for this name."""

ATTEMPTS = 6
QUEUE_LIMIT = 1000

logger = logging.getLogger(__name__)


class EventRecorder:
    """Posts events in the background, in order; the same one again only raises its count."""

    def __init__(self, client: ApiClient, node_name: str) -> None:
        self._client = client
        self._node = node_name
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE_LIMIT)
        self._posted: dict[tuple[str, ...], dict[str, Any]] = {}

    def post(
        self, about: Document, severity: Severity, reason: str, message: str, *, field_path: str | None = None
    ) -> None:
        """Tell something about an object. Events are best effort: when too many wait, they are dropped.

        :param field_path: of the container meant, such as `spec.containers{main}`.
        """
        metadata = about["metadata"]
        involved = {
            "kind": about.get("kind", "Pod"),
            "apiVersion": "v1",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "fieldPath": field_path,
        }
        if namespace := metadata.get("namespace"):
            involved |= {"namespace": namespace, "resourceVersion": metadata.get("resourceVersion")}
        now = time.time_ns()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name']}.{now:x}", "namespace": namespace or "default"},
            "involvedObject": {key: value for key, value in involved.items() if value is not None},
            "type": severity,
            "reason": reason,
            "message": message[:1024],
            "source": {"component": COMPONENT, "host": self._node},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._node,
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "count": 1,
        }
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("event dropped: %s %s", reason, message)

    async def run(self) -> None:
        """Post what is queued, until cancelled."""
        while True:
            event = await self._queue.get()
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await self._send(event)
                    break
                except ApiError as error:
                    if not error.is_transient:
                        # A namespace that is going takes no events, and nothing waits for one.
                        logger.info("event refused: %s", error)
                        break
                    await retry_pause(attempt)
                except ApiUnavailableError:
                    await retry_pause(attempt)

    async def _send(self, event: dict[str, Any]) -> None:
        involved = event["involvedObject"]
        key = (involved["uid"], involved.get("fieldPath", ""), event["reason"], event["message"])
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        if known := self._posted.get(key):
            change = {"count": known["count"] + 1, "lastTimestamp": event["lastTimestamp"]}
            try:
                name = known["metadata"]["name"]
                self._posted[key] = await self._client.request(
                    "PATCH", f"{path}/{name}", change, content_type=MERGE_PATCH
                )
                return
            except ApiError as error:
                if error.code != 404:
                    raise
        if len(self._posted) > QUEUE_LIMIT:
            self._posted.clear()
        self._posted[key] = await self._client.request("POST", path, event)
