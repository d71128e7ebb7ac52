"""The agent's side of the zygote: asks it for shims and holders, and hears what they report."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Isolated and without site-packages: half the start-up time, and no path of the agent's own gets in.
_ARGV = (sys.executable, "-I", "-S", "-c")
_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sandbox.agent.zygote import main; main()"
_INCLUDE = str(Path(__file__).parents[2])

ERRORS = "shim.log"
"""What a shim or holder prints, which is something only when it is broken."""


class LaunchError(Exception):
    """The zygote or what it forked broke; the message has its last words."""


class Launcher:
    """Has shims and holders forked."""

    def __init__(self) -> None:
        self._zygote: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """End the zygote; what was forked lives on."""
        if self._socket is not None:
            self._socket.close()
        if self._zygote is not None:
            self._zygote.wait()
        self._socket = self._zygote = None

    async def launch(
        self, program: str, folder: Path, descriptors: Mapping[str, int], **request: Any
    ) -> dict[str, Any]:
        """Fork a program of the zygote's; return what it reported.

        :param folder: where it works.
        :param descriptors: passed on under these names; they stay open here.
        :raises LaunchError: when it ended without a word.
        """
        text = await self._ask(program, folder, descriptors, request)
        if not text and self._has_ended():
            # Killed with the request unread, or the pipe would have been held by what it forked.
            self.close()
            text = await self._ask(program, folder, descriptors, request)
        if not text:
            last = (folder / ERRORS).read_text(errors="replace")[-500:]
            raise LaunchError(f"the {program} in {folder} ended before it reported: {last}")
        report: dict[str, Any] = json.loads(text)
        return report

    async def _ask(
        self, program: str, folder: Path, descriptors: Mapping[str, int], request: Mapping[str, Any]
    ) -> bytes:
        read, write = os.pipe()
        passed = {**descriptors, "report": write}
        message = {"program": program, "folder": str(folder), "descriptors": list(passed), **request}
        try:
            with (folder / ERRORS).open("ab") as errors:
                self._send(json.dumps(message).encode(), [errors.fileno(), *passed.values()])
        finally:
            os.close(write)
        try:
            return await _read_all(read)
        finally:
            os.close(read)

    def _has_ended(self) -> bool:
        """Whether the zygote hung up; that shows a moment before it can be waited for."""
        if self._socket is None:
            return True
        with contextlib.suppress(ConnectionError):
            try:
                self._socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
            except BlockingIOError:
                return False
        return True

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                socket.send_fds(self._socket, [message], descriptors)
                return
            # Somebody killed it: the containers do not depend on it, only the next ones.
            self.close()
        socket.send_fds(self.start(), [message], descriptors)

    def start(self) -> socket.socket:
        """Start the zygote ahead of the first container. Returns where it takes requests."""
        # Each message arrives as one, with its descriptors.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._zygote = subprocess.Popen(
                [*_ARGV, _PROGRAM, _INCLUDE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return self._socket


async def _read_all(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    data = b""
    loop.add_reader(descriptor, readable.set)
    try:
        while True:
            await readable.wait()
            readable.clear()
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                return data
            data += chunk
    finally:
        loop.remove_reader(descriptor)
