"""The process that every container's shim is forked from: it has started and imported all once.

A fresh interpreter for each container would cost most of the time that a container takes to start, and its own memory.
It ends with its agent; the shims do not. Single-threaded, as whoever forks and enters user namespaces has to be.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from typing import NoReturn

from sandbox.agent import executing, holder, shim

REQUEST_BYTES = 1 << 16
PROGRAMS = {"shim": shim.run, "holder": holder.run, "executing": executing.run}


def main() -> None:
    """Serve the agent at the socket whose descriptor is the first argument."""
    agent = socket.socket(fileno=int(sys.argv[1]))
    # Nobody waits for a shim: its files say how its container ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # A signal for the agent's group is not for its containers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        message, descriptors, _, _ = socket.recv_fds(agent, REQUEST_BYTES, 8)
        if not message:
            return
        if os.fork() == 0:
            agent.close()
            _serve(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _serve(message: bytes, descriptors: list[int]) -> NoReturn:
    request = json.loads(message)
    errors, *others = descriptors
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(errors, 2)
        os.close(errors)
        os.chdir(request["folder"])
        PROGRAMS[request["program"]](request, dict(zip(request["descriptors"], others, strict=True)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
