"""A small REST client of the API server; standard library only, since the full client takes a second to import."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from sandbox.certificates import KeyPair
from sandbox.errors import SandboxError

FIELD_MANAGER = "gpu-training-sandbox"
TIMEOUT_S = 10.0
READY_TIMEOUT_S = 2.0
_REASON_WIDTH = 2000

Document = dict[str, Any]


class ApiError(SandboxError):
    """The API server answered with an error.

    :param status: HTTP status; 0 when no answer came.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Requests as the holder of one client certificate, a connection each.

    :param url: `https://host:port`.
    """

    def __init__(self, url: str, authority: Path, identity: KeyPair) -> None:
        self.url = url
        self._host = urllib.parse.urlsplit(url).netloc
        self._context = ssl.create_default_context(cafile=str(authority))
        self._context.load_cert_chain(identity.certificate, identity.key)
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send a request, give the decoded answer, plain text where it is no JSON.

        :raises ApiError: anything but success; the message has the server's own words.
        """
        target = f"{path}?{urllib.parse.urlencode(query)}" if query else path
        with closing(self.connect(timeout_s)) as connection:
            return self.request_on(connection, method, target, body, content_type=content_type)

    def connect(self, timeout_s: float = TIMEOUT_S) -> http.client.HTTPSConnection:
        """Give a connection for :meth:`request_on`; it opens with the first request."""
        return http.client.HTTPSConnection(self._host, timeout=timeout_s, context=self._context)

    def request_on(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        target: str,
        body: object = None,
        *,
        content_type: str = "application/json",
    ) -> Any:
        """Send a request as :meth:`request` does, on a connection that may take many, one after another.

        :param target: path and query.
        """
        path = target.partition("?")[0]
        try:
            headers = {"Content-Type": content_type, "Accept": "application/json"}
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            content = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{method} {self.url}{path}: no answer: {error}", 0) from error
        decoded = _decode(content)
        if response.status >= http.client.BAD_REQUEST:
            words = decoded.get("message") if isinstance(decoded, dict) else content[:_REASON_WIDTH]
            raise ApiError(f"{method} {path}: {response.status}: {words}", response.status)
        return decoded

    def is_ready(self) -> bool:
        """Tell whether the API server serves and says of itself that it is ready."""
        try:
            self.request("GET", "/readyz", timeout_s=READY_TIMEOUT_S)
        except ApiError:
            return False
        return True

    def exists(self, path: str) -> bool:
        """Tell whether an object exists."""
        try:
            self.request("GET", path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def apply(self, document: Document) -> Document:
        """Apply an object on the server's side; what others set on it and we do not name stays."""
        path = self.path_of(document)
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        # JSON is YAML, and the server takes this content type for both.
        result: Document = self.request(
            "PATCH", path, document, content_type="application/apply-patch+yaml", query=query
        )
        return result

    def path_of(self, document: Document) -> str:
        """Give the path of the object that a document describes; kinds are looked up once in the server's discovery.

        :raises SandboxError: the server knows no such kind.
        """
        version, kind, metadata = document["apiVersion"], document["kind"], document["metadata"]
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if (version, kind) not in self._plurals:
            for resource in self.request("GET", group)["resources"]:
                if "/" not in resource["name"]:
                    self._plurals[version, resource["kind"]] = (resource["name"], resource["namespaced"])
        if (version, kind) not in self._plurals:
            raise SandboxError(f"the API server knows no {kind} in {version}: check apiVersion and kind")
        plural, namespaced = self._plurals[version, kind]
        place = f"namespaces/{metadata['namespace']}/" if namespaced else ""
        return f"{group}/{place}{plural}/{metadata['name']}"


def _decode(content: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content
