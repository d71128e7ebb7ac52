"""The agent's client of the API server: raw JSON documents, one connection pool."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from sandbox.agent.config import AgentConfig

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

TIMEOUT_S = 15.0


class ApiError(Exception):
    """The API server refused a request.

    :param code: HTTP status.
    :param reason: the machine's word, such as NotFound; empty when there was none.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    @property
    def is_transient(self) -> bool:
        """Whether the same request may be taken later."""
        return self.code == 429 or self.code >= 500


class ApiUnavailableError(Exception):
    """The API server could not be reached, or cut the connection."""


class ApiClient:
    """Requests under the node's identity. Open it with `async with`."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ApiClient:
        tls = ssl.create_default_context(cafile=str(self._config.ca_file))
        tls.load_cert_chain(self._config.client_cert, self._config.client_key)
        self._session = aiohttp.ClientSession(
            base_url=self._config.api_url,
            connector=aiohttp.TCPConnector(ssl=tls, limit=64),
            headers={"Accept": JSON, "User-Agent": "gpu-training-sandbox-agent"},
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send one request; return the document that came back.

        :raises ApiError: when the server refused it.
        :raises ApiUnavailableError: when there was no answer; the request may have been taken all the same.
        """
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._open().request(
                method,
                path,
                data=data,
                params=params,
                headers={"Content-Type": content_type},
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
            ) as response:
                text = await response.read()
                _check(response.status, text)
                document: dict[str, Any] = json.loads(text)
                return document
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ApiUnavailableError(f"{method} {path}: {type(error).__name__} {error}") from error

    async def watch(self, path: str, params: Mapping[str, str], *, seconds: int) -> AsyncIterator[dict[str, Any]]:
        """Give the events of a watch, until the server ends it.

        :raises ApiError: when the server refused it; 410 when the version asked for is too old.
        :raises ApiUnavailableError: when the connection broke.
        """
        # A half-open connection shows only by silence; the server itself ends the watch after `seconds`.
        timeout = aiohttp.ClientTimeout(total=seconds + TIMEOUT_S, sock_connect=TIMEOUT_S)
        rest = b""
        try:
            query = {**params, "watch": "true", "timeoutSeconds": str(seconds)}
            async with self._open().get(path, params=query, timeout=timeout) as response:
                if response.status != 200:
                    _check(response.status, await response.read())
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield _event(line)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ApiUnavailableError(f"watch {path}: {type(error).__name__} {error}") from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise ApiUnavailableError("the client is not open")
        return self._session


def _event(line: bytes) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
    return event


def _check(code: int, text: bytes) -> None:
    if code < 400:
        return
    try:
        status = json.loads(text)
        reason, message = status.get("reason", ""), status.get("message", "")
    except (ValueError, AttributeError):
        reason, message = "", text.decode("utf-8", "replace")
    raise ApiError(code, reason, message or f"HTTP {code}")


async def retry_pause(attempt: int, *, first_s: float = 0.1, longest_s: float = 5.0) -> None:
    """Wait before attempt number `attempt` (from 1): twice as long each time, up to the longest."""
    await asyncio.sleep(min(longest_s, first_s * 2 ** min(attempt - 1, 20)))
