"""A client for logs beside the one for requests: hundreds of streams are open for days, and each may bring a flood."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

import aiohttp

BUFFER_BYTES: Final = 16 * 1024
"""From twice that on nothing more is read from a connection. The client for requests has 2 MiB, for large objects."""


def log_client(client: Any) -> Any:
    """Make a client with the same configuration and credentials, whose connections are its own.

    The client for requests allows a hundred connections: logs would take them all. The number of logs that are open is
    limited elsewhere (:mod:`gpu_training.cluster.log_streams`).

    :param client: of kubernetes_asyncio. The new one is to be closed by itself: `await made.rest_client.close()`.
    """
    from kubernetes_asyncio.client.rest import RESTClientObject

    rest = RESTClientObject(client.configuration, maxsize=0)
    with_large_buffers = rest.pool_manager
    rest.pool_manager = aiohttp.ClientSession(
        connector=with_large_buffers.connector, trust_env=True, read_bufsize=BUFFER_BYTES
    )
    with_large_buffers.detach()
    made = copy(client)
    made.rest_client = rest
    return made


def keep_small(response: aiohttp.ClientResponse) -> None:
    """Have TLS, too, hold little that nobody has read; its default is a quarter of a mebibyte for each connection."""
    transport = response.connection.transport if response.connection is not None else None
    limit = getattr(transport, "set_read_buffer_limits", None)  # only a transport with TLS has it
    if limit is not None:
        limit(high=BUFFER_BYTES)
    tls = getattr(transport, "_ssl_protocol", None)
    if tls is not None and hasattr(tls, "_ssl_buffer_view"):
        # asyncio has no public way to it. It reads into a buffer that is made with the connection, and OpenSSL keeps
        # whatever room it once needed for as much.
        tls.max_size = BUFFER_BYTES
        tls._ssl_buffer = bytearray(BUFFER_BYTES)
        tls._ssl_buffer_view = memoryview(tls._ssl_buffer)
