"""Many requests to the API server at once, over few connections."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from sandbox.api import TIMEOUT_S, Api, ApiError

CONNECTIONS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; see :meth:`sandbox.api.Api.request_on`."""

    method: str
    target: str
    body: object = None
    content_type: str = "application/json"


def send_all(
    api: Api, requests: Sequence[Request], *, allowed: Collection[int] = (), timeout_s: float = TIMEOUT_S
) -> None:
    """Send all requests, in no order, and return when all are answered.

    :param allowed: HTTP statuses of errors that are none here, such as 409 where an object may be there already.
    :raises sandbox.api.ApiError: one of them failed; of the others, some were sent.
    """

    def send(share: Sequence[Request]) -> None:
        with closing(api.connect(timeout_s)) as connection:
            for each in share:
                try:
                    api.request_on(connection, each.method, each.target, each.body, content_type=each.content_type)
                except ApiError as error:
                    if error.status not in allowed:
                        raise

    shares = [requests[start::CONNECTIONS] for start in range(min(CONNECTIONS, len(requests)))]
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for done in [pool.submit(send, share) for share in shares]:
            done.result()
