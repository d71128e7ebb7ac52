"""Orders to the agents of nodes of kind `process`, over the server that each of them has for the API server."""

from __future__ import annotations

import json

from sandbox.api import Api
from sandbox.cluster import Sandbox
from sandbox.control_plane import HOST
from sandbox.errors import SandboxError
from sandbox.faults.names import node_named


def tell_agent(sandbox: Sandbox, node: str, method: str, path: str, order: dict[str, object]) -> None:
    """Give a node's agent an order, and wait until it has taken it.

    :raises SandboxError: there is no such node, it does not answer, or it can not do what was ordered.
    """
    ready = sandbox.site.node_folder(node) / "ready.json"
    try:
        port = json.loads(ready.read_text())["port"]
    except OSError as error:
        node_named(sandbox, node)
        raise SandboxError(
            f"node {node} is not of kind process, and only such a one can be ordered to do this"
        ) from error
    credentials = sandbox.site.credentials
    agent = Api(f"https://{HOST}:{port}", credentials.cluster.certificate, credentials.pair("node-client"))
    agent.request(method, path, order)
