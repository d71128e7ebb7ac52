"""What the API server or the way to it said -> our errors: transient ones as ClusterUnavailable, final ones as
ClusterRejected. The message of the answer's body is kept; headers, which may hold credentials, never are."""

from __future__ import annotations

import json
from typing import Any, Final

from gpu_training.core.errors import ClusterError, ClusterRejected, ClusterUnavailable

_LONGEST_BODY: Final = 600

TRANSIENT: Final = frozenset(
    {
        401,  # a token that has just expired; the connection was read again before this is said
        408,
        429,
        500,  # "no agent available", a webhook that timed out, etcd's leader election
        502,
        503,
        504,
    }
)
"""Statuses after which the same request may succeed.

https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md#http-status-codes
"""


def error_of(status: int, body: bytes, *, doing: str, where: str) -> ClusterError:
    """Give the error for an answer that is not a success.

    :param doing: the request in words, `create Job gpu-training/x`.
    :param where: connection and host.
    """
    said = _message(body)
    if status in TRANSIENT:
        hint = "; check the connection's credentials" if status == 401 else ""
        return ClusterUnavailable(f"could not {doing} with {where}: HTTP {status}: {said}{hint}", status=status)
    hint = "; the Role of the connection's account has to allow it" if status == 403 and "cannot " in said else ""
    return ClusterRejected(f"could not {doing} with {where}: HTTP {status}: {said}{hint}", status=status)


def error_from(exc: BaseException, *, doing: str, where: str) -> ClusterUnavailable:
    """Give the error for a connection that could not be made, broke, or was silent for too long."""
    said = str(exc) or type(exc).__name__
    return ClusterUnavailable(
        f"could not {doing} with {where}: {said}; check that the API server runs, that this host reaches it, and the "
        "address in the connection's kubeconfig"
    )


def document_of(body: bytes, *, doing: str, where: str) -> dict[str, Any]:
    """Give the document in a success's body.

    :raises ClusterUnavailable: it holds none: what answers is no API server, as a proxy's page for a login is none.
    """
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict):
        return document
    raise ClusterUnavailable(
        f"could not {doing} with {where}: the answer is no JSON object: {_message(body)}; check what stands "
        "between this host and the API server"
    )


def _message(body: bytes) -> str:
    text = body.decode(errors="backslashreplace").strip()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("message"), str) and document["message"]:
        text = document["message"]
    return text[:_LONGEST_BODY] or "no message"
