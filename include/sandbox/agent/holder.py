"""Keeps a pod's memory volumes: a mount namespace with one tmpfs a volume, which the pod's containers start from.

Run once a pod that has such volumes. Whoever holds the namespace open afterwards (the agent, each container) keeps the
volumes, so the process may end. Standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sandbox.agent import namespaces


def run(request: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
    """Mount the tmpfs `volumes` of the request; report, and stay until the agent closes its end of `hold`."""
    try:
        namespaces.unshare(namespaces.required_flags() | namespaces.NEW_MOUNTS)
        namespaces.detach_mounts()
        for path, size in request["volumes"].items():
            limit = f",size={size}" if size is not None else ""
            namespaces.mount("tmpfs", path, "tmpfs", options=f"mode=1777{limit}")
        report: dict[str, Any] = {"pid": os.getpid()}
    except OSError as error:
        report = {"fault": "mount", "message": f"{error}; {namespaces.REMEDY}"}
    os.write(descriptors["report"], json.dumps(report).encode())
    os.close(descriptors["report"])
    os.read(descriptors["hold"], 1)
