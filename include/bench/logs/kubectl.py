"""`kubectl logs -f --timestamps`, a process a pod, into pipes that are counted."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path

from bench.logs.figures import Run
from bench.logs.pods import NAMESPACE, Stream

STALL_S = 60.0
PIPE_BYTES = 256 * 1024
"""Of each pipe: the larger it is, the more rarely kubectl waits for whoever reads."""
MIB_KIB = 1024.0


class Kubectl:
    """Processes that follow pods, and the other ends of their pipes.

    :ivar began: when the first bytes came, by the machine's monotonic clock.
    :ivar news_at: when the newest ones did.
    """

    def __init__(self, program: Path, kubeconfig: Path, stream: Stream, home: Path) -> None:
        self.lines = self.size = 0
        self.began = self.news_at = 0.0
        self._waiting = selectors.DefaultSelector()
        self._buffer = bytearray(PIPE_BYTES)
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(home), "HOME": str(home)}
        command = [str(program), "--namespace", NAMESPACE, "logs", "--follow", "--timestamps"]
        self._processes = []
        for name in stream.names:
            read, write = os.pipe()
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._processes.append(subprocess.Popen([*command, name], stdout=write, env=environment))
            os.close(write)
            self._waiting.register(read, selectors.EVENT_READ)

    def read(self, lines: int | None = None) -> None:
        """Read until so many lines have come in all, to the end for None, or until nothing has come for long."""
        stall_at = time.monotonic() + STALL_S
        while self._waiting.get_map() and (lines is None or self.lines < lines) and time.monotonic() < stall_at:
            for key, _ in self._waiting.select(1.0):
                if self._take(key.fd):
                    stall_at = self.news_at + STALL_S

    def end(self) -> tuple[float, float]:
        """End them; return their processor time in seconds, and the most memory of one of them in MiB."""
        for key in list(self._waiting.get_map().values()):
            os.close(key.fd)
        self._waiting.close()
        seconds, largest = 0.0, 0.0
        for process in self._processes:
            # Not by Popen, which would reap it, and its figures with it.
            os.kill(process.pid, signal.SIGKILL)
            _, process.returncode, used = os.wait4(process.pid, 0)
            seconds += used.ru_utime + used.ru_stime
            largest = max(largest, used.ru_maxrss / MIB_KIB)
        return seconds, largest

    def _take(self, descriptor: int) -> bool:
        data = os.read(descriptor, PIPE_BYTES)
        if not data:
            self._waiting.unregister(descriptor)
            os.close(descriptor)
            return False
        self.news_at = time.monotonic()
        self.began = self.began or self.news_at
        self.lines += data.count(b"\n")
        self.size += len(data)
        return True


def measure(stream: Stream, program: Path, kubeconfig: Path, home: Path, *, backlog: bool) -> Run:
    """Have kubectl follow the pods.

    :param home: a folder for what it caches.
    :param backlog: as of ours.
    """
    everything = stream.lines * len(stream.names)
    followers = Kubectl(program, kubeconfig, stream, home)
    try:
        followers.read(len(stream.names))
        began = followers.began
        if not backlog:
            began = time.monotonic()
            stream.go()
        followers.read(everything)
        complete = followers.news_at
        if not backlog:
            stream.end()
            followers.read()
    finally:
        processor_s, memory_mib = followers.end()
    wrong = followers.lines - everything
    faults = (f"{abs(wrong)} lines {'too many' if wrong > 0 else 'missing'}",) if wrong else ()
    return Run(
        lines=followers.lines,
        size=followers.size,
        seconds=complete - began,
        processor_s=processor_s,
        memory_mib=memory_mib,
        faults=faults,
    )
