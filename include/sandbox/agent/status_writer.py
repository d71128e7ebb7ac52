"""Writes a pod's status until the API server has taken the newest one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from sandbox.agent.api import STRATEGIC_MERGE_PATCH, ApiClient, ApiError, ApiUnavailableError, retry_pause

Document = Mapping[str, Any]

logger = logging.getLogger(__name__)


class StatusWriter:
    """Keeps the status of one pod written.

    :param build: gives the status document as it is now.
    """

    def __init__(self, client: ApiClient, pod: Document, build: Callable[[], dict[str, Any]]) -> None:
        metadata = pod["metadata"]
        self._client = client
        self._uid = metadata["uid"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._build = build
        self._wanted = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self.pod_gone = False

    def mark(self) -> None:
        """Have the status written again; what changes in quick succession is written once."""
        self._settled.clear()
        self._wanted.set()

    async def flush(self) -> None:
        """Wait until the newest status is written, or the pod is gone."""
        await self._settled.wait()

    async def run(self) -> None:
        """Write what is marked, until cancelled."""
        attempt = 0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                if not self.pod_gone:
                    await self._write()
                attempt = 0
            except (ApiError, ApiUnavailableError) as error:
                attempt += 1
                logger.warning("status of %s not written (attempt %d): %s", self._path, attempt, error)
                await retry_pause(attempt, longest_s=2.0)
                self._wanted.set()
            if not self._wanted.is_set():
                self._settled.set()

    async def _write(self) -> None:
        # The UID makes it fail for a newer pod of the same name.
        body = {"metadata": {"uid": self._uid}, "status": self._build()}
        try:
            await self._client.request("PATCH", f"{self._path}/status", body, content_type=STRATEGIC_MERGE_PATCH)
        except ApiError as error:
            if error.code == 404 or (error.code in (409, 422) and "uid" in error.message.lower()):
                self.pod_gone = True
                return
            raise

    async def delete(self) -> None:
        """Have the API server remove the pod, which has ended. Finalizers may keep its object."""
        attempt = 0
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        while not self.pod_gone:
            try:
                await self._client.request("DELETE", self._path, body)
                return
            except ApiError as error:
                if error.code in (404, 409):
                    return
                logger.warning("pod %s not removed: %s", self._path, error)
            except ApiUnavailableError as error:
                logger.warning("pod %s not removed: %s", self._path, error)
            attempt += 1
            await retry_pause(attempt, longest_s=2.0)
