"""Keeps a pod's memory volumes: a mount namespace with one tmpfs a volume, which the pod's containers start from.

Run once a pod that has such volumes; it ends when its standard input does. Whoever holds the namespace open meanwhile
(the agent, each container) keeps the volumes, so no process has to stay. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys

from sandbox.agent import namespaces


def main() -> None:
    """Mount the tmpfs volumes of the JSON list given as first argument; report to the descriptor given as second."""
    volumes, report = json.loads(sys.argv[1]), int(sys.argv[2])
    try:
        namespaces.unshare(namespaces.required_flags() | namespaces.NEW_MOUNTS)
        namespaces.detach_mounts()
        for volume in volumes:
            size = f",size={volume['size']}" if volume["size"] else ""
            namespaces.mount("tmpfs", volume["path"], "tmpfs", options=f"mode=1777{size}")
    except OSError as error:
        os.write(report, json.dumps({"fault": "mount", "message": f"{error}; {namespaces.REMEDY}"}).encode())
        return
    os.write(report, json.dumps({"pid": os.getpid()}).encode())
    os.close(report)
    sys.stdin.read()
