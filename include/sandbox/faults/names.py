"""Names of what a fault is to befall, refused with those that are known where there is none."""

from __future__ import annotations

import http.client
from collections.abc import Iterable

from sandbox.api import ApiError, Document
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError

SHOWN = 10


def node_named(sandbox: Sandbox, name: str) -> Document:
    """Give a Node.

    :raises SandboxError: there is none of this name.
    """
    return _named(sandbox, "/api/v1/nodes", name, "node")


def pod_named(sandbox: Sandbox, namespace: str, name: str) -> Document:
    """Give a pod.

    :raises SandboxError: there is no such namespace or no such pod in it.
    """
    check_namespace(sandbox, namespace)
    return _named(sandbox, f"/api/v1/namespaces/{namespace}/pods", name, f"pod of namespace {namespace}")


def check_namespace(sandbox: Sandbox, name: str) -> None:
    """Refuse a namespace that does not exist.

    :raises SandboxError: it does not.
    """
    _named(sandbox, "/api/v1/namespaces", name, "namespace")


def node_processes(sandbox: Sandbox, name: str) -> list[str]:
    """Give the names of a node's own processes, in the order in which they were started.

    :raises SandboxError: there is no such node, or it has none, as a simulated one.
    """
    if processes := sandbox.processes_of(name):
        return processes
    node_named(sandbox, name)
    raise SandboxError(f"node {name} has no process of its own to lose or restart: name one of another kind")


def unknown(what: str, name: str, known: Iterable[str]) -> SandboxError:
    """Give the error for a name that nothing has."""
    names = sorted(known)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return SandboxError(f"no {what} is named {name!r}; known are {', '.join(names[:SHOWN]) or 'none'}{more}")


def _named(sandbox: Sandbox, collection: str, name: str, what: str) -> Document:
    try:
        found: Document = sandbox.api.request("GET", f"{collection}/{name}")
    except ApiError as error:
        if error.status != http.client.NOT_FOUND:
            raise
        items = sandbox.api.request("GET", collection)["items"]
        raise unknown(what, name, (each["metadata"]["name"] for each in items)) from error
    return found
