"""ConfigMaps, Secrets and tokens that pods on this node ask for."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from typing import Any

from sandbox.agent.api import ApiClient, ApiError, ApiUnavailableError, retry_pause
from sandbox.agent.environment import Source, SourceKind
from sandbox.agent.volumes import Token

Document = Mapping[str, Any]

ATTEMPTS = 5

_RENEWED_AFTER = 0.8
"""Part of a token's life after which the kubelet gets a new one."""


class ObjectUnavailableError(Exception):
    """The API server did not give an object: it can not be reached, or refuses. Not: there is none."""


class ObjectReader:
    """Reads for one pod what its containers and volumes refer to. Tokens are kept until most of their life is over."""

    def __init__(self, client: ApiClient, pod: Document) -> None:
        self._client = client
        self._pod = pod
        self._tokens: dict[Token, tuple[bytes, float]] = {}

    async def read(self, sources: Iterable[Source]) -> dict[Source, Mapping[str, bytes] | None]:
        """Return the content of objects, None for those that do not exist.

        :raises ObjectUnavailableError: when one can not be read.
        """
        return {source: await self._content(source) for source in sources}

    async def tokens(self, wanted: Iterable[Token]) -> dict[Token, bytes]:
        """Return service account tokens that are bound to the pod.

        :raises ObjectUnavailableError: when one is not given out.
        """
        return {token: await self._token(token) for token in wanted}

    async def _content(self, source: Source) -> Mapping[str, bytes] | None:
        kind = "secrets" if source.kind is SourceKind.SECRET else "configmaps"
        path = f"/api/v1/namespaces/{self._pod['metadata']['namespace']}/{kind}/{source.name}"
        document = await self._ask("GET", path, None)
        if document is None:
            return None
        encoded = document.get("data" if source.kind is SourceKind.SECRET else "binaryData") or {}
        content = {key: base64.b64decode(value or "") for key, value in encoded.items()}
        if source.kind is SourceKind.CONFIG_MAP:
            content |= {key: value.encode() for key, value in (document.get("data") or {}).items()}
        return content

    async def _token(self, token: Token) -> bytes:
        known = self._tokens.get(token)
        if known and time.monotonic() < known[1]:
            return known[0]
        metadata = self._pod["metadata"]
        account = self._pod["spec"].get("serviceAccountName") or "default"
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        spec: dict[str, Any] = {"expirationSeconds": token.expiration_seconds, "boundObjectRef": bound}
        if token.audience:
            spec["audiences"] = [token.audience]
        answer = await self._ask(
            "POST",
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        if answer is None:
            raise ObjectUnavailableError(f'serviceaccounts "{account}" not found')
        value = str(answer["status"]["token"]).encode()
        self._tokens[token] = value, time.monotonic() + _RENEWED_AFTER * token.expiration_seconds
        return value

    async def _ask(self, method: str, path: str, body: Document | None) -> dict[str, Any] | None:
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._client.request(method, path, body)
            except ApiError as error:
                if error.code == 404:
                    return None
                # The authorizer learns of a pod's binding a moment after the node does.
                early = error.code == 403 and "no relationship found" in error.message
                if attempt == ATTEMPTS or not (early or error.is_transient):
                    raise ObjectUnavailableError(str(error)) from error
            except ApiUnavailableError as error:
                if attempt == ATTEMPTS:
                    raise ObjectUnavailableError(str(error)) from error
            await retry_pause(attempt, first_s=0.05)
