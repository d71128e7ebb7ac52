"""The supervisor process itself; :mod:`sandbox.supervisor` starts it and talks to it. Standard library only.

It is a child subreaper: a descendant that loses its parent becomes its child and not init's, so none is ever out of
sight. One thread does everything, since the kernel ties a parent-death signal to the thread that forked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sandbox.child import Child, adopt_orphans
from sandbox.process_spec import RECORD_NAME, SOCKET_NAME, ProcessSpec, SupervisorError
from sandbox.processes import POLL_S, Process, boot_id, descendants, is_alive, read_process, send, snapshot

WATCH_S = 0.25
ORPHAN_GRACE_S = 2.0
GOOD_BYE_S = 2.0
LINE_LIMIT = 1 << 20


class Supervision:
    """All processes of one state folder. The working directory is that folder, so that its path may be any length."""

    def __init__(self, folder: Path, owner: tuple[int, int] | None) -> None:
        self.folder = folder
        self.owner = owner
        self.children: dict[str, Child] = {}
        self.started: list[tuple[int, int]] = []
        self.over = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None] | None] = set()

    async def serve(self, announce: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(signum, self._end_soon)
        self._write_record()
        server = await asyncio.start_unix_server(self._answer, path=SOCKET_NAME, limit=LINE_LIMIT)
        os.chmod(SOCKET_NAME, 0o600)
        announce()
        async with server:
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.over.wait(), WATCH_S)
                if self._is_abandoned():
                    self._end_soon()
            # Whoever asked for the end hears of it before the loop does end.
            if waiting := [task for task in self._answering if task]:
                await asyncio.wait(waiting, timeout=GOOD_BYE_S)

    def _is_abandoned(self) -> bool:
        owner_gone = self.owner is not None and not is_alive(*self.owner)
        return owner_gone or not os.path.exists(RECORD_NAME)

    def _end_soon(self) -> None:
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end_all())

    async def _end_all(self) -> None:
        for child in reversed(list(self.children.values())):
            await self._stop(child, child.spec.grace_s)

        def left() -> list[Process]:
            return descendants(os.getpid(), snapshot())

        for process in left():
            send(process, signal.SIGTERM)
        for _ in range(int(ORPHAN_GRACE_S / POLL_S)):
            if not left():
                break
            await asyncio.sleep(POLL_S)
        await _kill_all(left)
        for name in (SOCKET_NAME, RECORD_NAME):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        self.over.set()

    async def _stop(self, child: Child, grace_s: float) -> None:
        # Taken before the end: what rewrote its environment and left the session is known by descent only.
        before = child.family()
        child.signal(signal.SIGTERM)
        # One that was paused could not obey.
        child.signal(signal.SIGCONT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.ended.wait(), grace_s)
        child.signal(signal.SIGKILL)
        await child.ended.wait()
        await _kill_all(lambda: [*(each for each in before if is_alive(each.pid, each.start)), *child.family()])

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for child in self.children.values():
                if child.pid == pid and not child.ended.is_set():
                    child.end(os.waitstatus_to_exitcode(status))

    def _write_record(self) -> None:
        """Write down what to look for should this process be killed; replaced in one step, never half written."""
        own = read_process(os.getpid())
        assert own is not None  # noqa: S101 - it is us
        record = {"boot": boot_id(), "supervisor": [own.pid, own.start], "processes": self.started}
        draft = Path(f"{RECORD_NAME}.new")
        draft.write_text(json.dumps(record))
        draft.replace(RECORD_NAME)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.add(asyncio.current_task())
        try:
            request = json.loads(await reader.readline())
            try:
                answer = {"result": await self._obey(**request)}
            except (SupervisorError, OSError, subprocess.SubprocessError) as error:
                answer = {"error": str(error)}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ValueError, ConnectionError) as error:
            # The log's disk may be full.
            with contextlib.suppress(OSError):
                print(f"a request was given up: {error}", file=sys.stderr, flush=True)
        finally:
            writer.close()
            self._answering.discard(asyncio.current_task())

    async def _obey(self, command: str, **arguments: Any) -> Any:
        commands: dict[str, Callable[..., Awaitable[Any]]] = {
            "run": self._obey_run,
            "stop": self._obey_stop,
            "remove": self._obey_remove,
            "signal": self._obey_signal,
            "restart": self._obey_restart,
            "release": self._obey_release,
            "status": self._obey_status,
            "shutdown": self._obey_shutdown,
        }
        return await commands[command](**arguments)

    async def _obey_run(self, spec: dict[str, Any]) -> int:
        return self._run(ProcessSpec.from_document(spec))

    async def _obey_stop(self, name: str, grace_s: float | None) -> None:
        child = self._named(name)
        await self._stop(child, child.spec.grace_s if grace_s is None else grace_s)

    async def _obey_remove(self, name: str) -> None:
        child = self._named(name)
        await self._stop(child, child.spec.grace_s)
        if self.children.get(name) is child:
            del self.children[name]

    async def _obey_signal(self, name: str, signum: int) -> None:
        self._named(name).signal(signum)

    async def _obey_restart(self, name: str, alone: bool) -> int:
        child = self._named(name)
        if alone:
            child.signal(signal.SIGKILL)
            await child.ended.wait()
        else:
            await self._stop(child, child.spec.grace_s)
        return self._run(child.spec)

    async def _obey_release(self) -> None:
        self.owner = None

    async def _obey_status(self) -> dict[str, Any]:
        return {name: asdict(child.status()) for name, child in self.children.items()}

    async def _obey_shutdown(self) -> None:
        self._end_soon()
        await self.over.wait()

    def _run(self, spec: ProcessSpec) -> int:
        if self._ending is not None:
            raise SupervisorError(f"{spec.name} is not started: this supervisor is shutting down")
        previous = self.children.get(spec.name)
        if previous is not None and not previous.ended.is_set():
            raise SupervisorError(f"a process named {spec.name} runs already, pid {previous.pid}: stop it first")
        child = Child(spec, self.folder)
        self.children.pop(spec.name, None)
        self.children[spec.name] = child
        self.started.append((child.pid, child.start))
        try:
            self._write_record()
        except OSError:
            # What is not written down would not be found again.
            child.signal(signal.SIGKILL)
            del self.children[spec.name], self.started[-1]
            raise
        return child.pid

    def _named(self, name: str) -> Child:
        if name not in self.children:
            known = ", ".join(self.children) or "none"
            raise SupervisorError(f"no process is named {name}; known are: {known}")
        return self.children[name]


async def _kill_all(find: Callable[[], list[Process]]) -> None:
    while found := find():
        for process in found:
            send(process, signal.SIGKILL)
        await asyncio.sleep(POLL_S)


def main() -> None:
    """Become the supervisor of a folder; the process that was started returns once requests are answered."""
    folder = Path(sys.argv[1])
    owner = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 2 else None
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os._exit(0 if os.read(reading, 1) else 1)
    os.close(reading)
    os.chdir(folder)
    adopt_orphans()

    async def supervise() -> None:
        await Supervision(folder, owner).serve(lambda: os.close(writing) if os.write(writing, b"1") else None)

    asyncio.run(supervise())


if __name__ == "__main__":
    main()
