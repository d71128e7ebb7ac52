"""One API server, as an Airflow connection reaches it: raw requests and streams over the provider's async client.

Documents stay plain JSON: for thousands of Jobs, model objects would cost more than all else. Credentials are read
again, once per refusal, when the API server answers 401: tokens of long trainings expire.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

import aiohttp

from gpu_training.cluster.faults import document_of, error_from, error_of
from gpu_training.cluster.log_client import keep_small, log_client
from gpu_training.cluster.server_clock import clock_of
from gpu_training.core.errors import ClusterUnavailable, ConfigurationError

DEFAULT_CONNECTION: Final = "kubernetes_gpu"
JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
TRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.2
_CONNECT_S: Final = 10.0
# What the clients' loader raises on a kubeconfig of another shape; a missing key is a ConfigException.
_MALFORMED = (ValueError, OSError, TypeError, AttributeError, LookupError)
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAddress:
    """Which API server, in the stock operator's own words; a value that is not None wins over the connection's."""

    conn_id: str | None = DEFAULT_CONNECTION
    in_cluster: bool | None = None
    cluster_context: str | None = None
    config_file: str | None = None

    def to_document(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def named(self) -> str:
        """Name the way to it, for messages."""
        if self.conn_id is not None:
            return f"connection {self.conn_id!r}"
        return f"kubeconfig {self.config_file}" if self.config_file is not None else "the pod's service account"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A success.

    :param warnings: texts of the answer's Warning headers (RFC 9110), such as Pod Security's.
    """

    document: Document
    warnings: tuple[str, ...] = field(default=())


@dataclass(slots=True)
class _Session:
    """A client with the credentials as they were when it was made.

    :param users: requests that go on with it.
    :param retired: whether its credentials were refused; it is closed once nobody uses it any more.
    :param for_logs: the client for logs; None until a log is read.
    """

    client: Any
    stack: AsyncExitStack
    users: int = 0
    retired: bool = False
    for_logs: Any = None

    def client_of(self, *, is_log: bool) -> Any:
        """Give the client for requests, or the one for logs, which is made when it is first asked for."""
        if not is_log:
            return self.client
        if self.for_logs is None:
            self.for_logs = log_client(self.client)
            self.stack.push_async_callback(self.for_logs.rest_client.close)
        return self.for_logs

    async def close_if_unused(self) -> None:
        if self.retired and self.users == 0:
            await self.stack.aclose()


class Cluster:
    """An open connection. Belongs to the event loop that opened it.

    :param address: where.
    :ivar clock: of the API server.
    """

    def __init__(self, address: ClusterAddress) -> None:
        self.address = address
        self.clock = clock_of(address)
        self._session: _Session | None = None
        self._host = ""
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; streams that are open end."""
        if self._session is not None:
            await self._session.stack.aclose()
            self._session = None

    @property
    def where(self) -> str:
        """Name connection and host, for messages."""
        return f"{self.address.named}{self._host}"

    async def request(
        self,
        method: str,
        path: str,
        *,
        doing: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 20.0,
        tries: int = TRIES,
    ) -> Reply:
        """Give the answer to a request that may be repeated.

        :param doing: the request in words, for messages.
        :param timeout: seconds for each try.
        :param tries: how often a transient fault is tried again, with growing pauses.
        :raises ClusterUnavailable: still unreachable or overloaded after the last try.
        :raises ClusterRejected: refused for good.
        """
        for attempt in range(tries):
            try:
                async with self._send(
                    method, path, doing, query, body, content_type, aiohttp.ClientTimeout(total=timeout)
                ) as response:
                    document = document_of(await response.read(), doing=doing, where=self.where)
                    return Reply(document=document, warnings=_warnings(response))
            except ClusterUnavailable:
                if attempt == tries - 1:
                    raise
                await asyncio.sleep(_FIRST_PAUSE_S * 2**attempt * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
        raise AssertionError("unreachable: the last try returns or raises")

    @asynccontextmanager
    async def stream(
        self, path: str, *, doing: str, query: Mapping[str, str], idle: float, is_log: bool = False
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Give the body of an answer that goes on and on.

        :param idle: seconds of silence after which the stream counts as broken.
        :param is_log: whether it is one of many, with small pieces: it gets a connection beside those of requests.
        :raises ClusterUnavailable: the stream could not be opened, or broke.
        :raises ClusterRejected: refused for good.
        """
        limit = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle)
        async with self._send("GET", path, doing, query, None, JSON, limit, is_log=is_log) as response:
            if is_log:
                keep_small(response)
            yield response.content

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        path: str,
        doing: str,
        query: Mapping[str, str] | None,
        body: object,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
        *,
        is_log: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            for last in (False, True):
                session = await self._open()
                session.users += 1
                try:
                    response = await session.client_of(is_log=is_log).call_api(
                        path,
                        method,
                        query_params=list((query or {}).items()),
                        header_params={"Accept": JSON, "Content-Type": content_type},
                        body=body,
                        auth_settings=["BearerToken"],
                        _preload_content=False,
                        _request_timeout=timeout,
                    )
                    async with response:
                        self.clock.hear(response.headers.get("Date", ""))
                        if response.status == 401:
                            self._forget(session)
                            if not last:
                                continue
                        if response.status >= 300:
                            raise error_of(response.status, await response.read(), doing=doing, where=self.where)
                        yield response
                        return
                finally:
                    session.users -= 1
                    await session.close_if_unused()
        except _BROKEN as exc:
            raise error_from(exc, doing=doing, where=self.where) from exc

    def _forget(self, session: _Session) -> None:
        """Have the next request read the credentials again; what others ask meanwhile with the old ones may end."""
        session.retired = True
        if self._session is session:
            self._session = None

    async def _open(self) -> _Session:
        async with self._opening:
            if self._session is None:
                self._session = await self._load()
                self._host = f" ({self._session.client.configuration.host})"
            return self._session

    async def _load(self) -> _Session:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import AsyncKubernetesHook
        from airflow.sdk.exceptions import AirflowException
        from kubernetes_asyncio.config import ConfigException
        from yaml import YAMLError

        try:
            # In a thread: reading a connection may block on a secrets backend or on the supervisor.
            extras = await asyncio.to_thread(self._extras)
            hook = AsyncKubernetesHook(
                conn_id=self.address.conn_id,
                connection_extras=extras,
                in_cluster=self.address.in_cluster,
                cluster_context=self.address.cluster_context,
            )
            stack = AsyncExitStack()
            return _Session(client=await stack.enter_async_context(hook.get_conn()), stack=stack)
        except (AirflowException, ConfigException, YAMLError, *_MALFORMED) as exc:
            raise self._no_way(exc) from exc

    def _no_way(self, exc: Exception) -> ConfigurationError:
        said = " ".join(str(exc).split()) or type(exc).__name__
        if isinstance(exc, (TypeError, AttributeError, LookupError)):
            said = f"it is malformed ({said})"
        if self.address.conn_id is None:
            where, value = (
                ("kubeconfig", self.address.config_file) if self.address.config_file else ("in_cluster", True)
            )
            return ConfigurationError(where, value, f"gives no way to a cluster: {said}; check what it says")
        return ConfigurationError(
            "kubernetes_conn_id",
            self.address.conn_id,
            f"the connection gives no way to a cluster: {said}; check that it exists and what its extra fields "
            "(kube_config_path, kube_config, in_cluster, cluster_context) say",
        )

    def _extras(self) -> dict[str, Any]:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

        extras = dict(KubernetesHook.get_connection(self.address.conn_id).extra_dejson) if self.address.conn_id else {}
        if self.address.config_file is not None:
            extras["kube_config_path"] = self.address.config_file
        return extras


def _warnings(response: aiohttp.ClientResponse) -> tuple[str, ...]:
    found = []
    for header in response.headers.getall("Warning", []):
        _, _, text = header.partition(' "')
        found.append(text.rstrip('"').replace('\\"', '"') if text else header)
    return tuple(found)
