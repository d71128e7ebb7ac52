"""Free ports of this machine."""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"


def free_ports(count: int, host: str = HOST) -> tuple[int, ...]:
    """Give ports that are free now; another program may take one before it is used, so be ready to try again.

    :param host: an address of this machine.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return tuple(each.getsockname()[1] for each in sockets)
