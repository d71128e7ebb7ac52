"""The parent of one container: starts it, writes its log, waits for its end, and writes down how it ended.

A process of its own, as in every container runtime, so that a container outlives its agent. It takes SIGTERM (passed to
the container's program) and SIGUSR1 (kills the container).

In its folder: `spec.json` (read), `state.json` (once started), `log`, `exit.json` (last). Forked from the zygote
(:mod:`sandbox.agent.zygote`); standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from sandbox.agent import namespaces
from sandbox.agent.cri_log import LineSplitter, encode_entries
from sandbox.agent.mounts import Mount, MountError, MountTree

DRAIN_S = 2.0
"""How long output is still read once the container has ended: a process that escaped may hold the pipe for ever."""

READ_BYTES = 1 << 16

Spec = Mapping[str, Any]


def run(request: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
    """Run the container of the current folder; report its start to the descriptor `report`.

    :param descriptors: `report`, and the namespaces `user` and `mnt` that the container starts from, where it has such.
    """
    with open("spec.json") as file:
        spec = json.load(file)
    for descriptor in descriptors.values():
        os.set_inheritable(descriptor, False)
    started_ns = time.time_ns()
    try:
        container = _Container(spec, descriptors)
    except _StartFault as fault:
        if fault.kind == "exec":
            _write("exit.json", {"message": fault.message, "finished_ns": time.time_ns()})
        _report(descriptors["report"], {"fault": fault.kind, "message": fault.message})
        return
    pid = os.getpid()
    state = {"pid": pid, "birth": birth_of(pid), "container_pid": container.pid, "started_ns": started_ns}
    _write("state.json", state)
    _report(descriptors["report"], state)
    for name in {"user", "mnt"} & set(descriptors):
        os.close(descriptors[name])
    code = container.run()
    _write("exit.json", {"exit_code": code, "started_ns": started_ns, "finished_ns": container.finished_ns})


def birth_of(pid: int) -> int | None:
    """Return when a process was started, in the kernel's ticks: with its pid it names one process. None: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


class _StartFault(Exception):
    """The container did not start. Kinds: `exec` (its program), `mount` (its view of the file system)."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class _Container:
    def __init__(self, spec: Spec, descriptors: Mapping[str, int]) -> None:
        self._log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._private = bool(spec["private"])
        self._wake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for signum in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(signum, lambda *_: None)
        for signum in (signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        self.finished_ns = 0
        self._start(spec, descriptors)

    def _start(self, spec: Spec, descriptors: Mapping[str, int]) -> None:
        fault, fault_write = os.pipe()
        pipes = {"stdout": os.pipe(), "stderr": os.pipe()}
        try:
            _leave_for_container(spec, descriptors.get("user"))
        except OSError as error:
            raise _StartFault("mount", f"{error}; {namespaces.REMEDY}") from error
        self.pid = os.fork()
        if self.pid == 0:
            _become_container(spec, descriptors.get("mnt"), pipes["stdout"][1], pipes["stderr"][1], fault_write)
        for descriptor in (fault_write, pipes["stdout"][1], pipes["stderr"][1]):
            os.close(descriptor)
        # exec closes the pipe; text in it says why there was none.
        with os.fdopen(fault, "rb") as pipe:
            text = pipe.read()
        if text:
            os.waitpid(self.pid, 0)
            raise _StartFault(**json.loads(text))
        self._streams = {read: (name, LineSplitter()) for name, (read, _) in pipes.items()}

    def run(self) -> int:
        """Write the log until the container has ended; return its exit code, 128 + n after signal n."""
        ended = os.pidfd_open(self.pid)
        poll = select.poll()
        for descriptor in (*self._streams, ended, self._wake):
            poll.register(descriptor, select.POLLIN)
        code: int | None = None
        deadline = float("inf")
        while code is None or (self._streams and time.monotonic() < deadline):
            for descriptor, _ in poll.poll(None if code is None else DRAIN_S * 1000):
                if descriptor == ended:
                    poll.unregister(ended)
                    code, deadline = self._reap(), time.monotonic() + DRAIN_S
                elif descriptor == self._wake:
                    self._pass_on(os.read(self._wake, 64), alive=code is None)
                elif not self._copy(descriptor):
                    poll.unregister(descriptor)
        for descriptor in list(self._streams):
            self._close(descriptor)
        return code

    def _reap(self) -> int:
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.finished_ns = time.time_ns()
        if not self._private:
            _end_descendants(self.pid)
        return code if code >= 0 else 128 - code

    def _pass_on(self, signals: bytes, *, alive: bool) -> None:
        for number in signals if alive else b"":
            if number == signal.SIGTERM:
                os.kill(self.pid, signal.SIGTERM)
            elif number == signal.SIGUSR1:
                # In a process namespace of its own all die with the first; otherwise at least its group does at once.
                os.kill(self.pid, signal.SIGKILL)

    def _copy(self, descriptor: int) -> bool:
        data = os.read(descriptor, READ_BYTES)
        name, lines = self._streams[descriptor]
        if not data:
            self._close(descriptor)
            return False
        self._append(name, lines.feed(data))
        return True

    def _close(self, descriptor: int) -> None:
        name, lines = self._streams.pop(descriptor)
        self._append(name, lines.close())
        os.close(descriptor)

    def _append(self, name: str, lines: Any) -> None:
        data = encode_entries(name, lines, time.time_ns)
        while data:
            data = data[os.write(self._log, data) :]


def _leave_for_container(spec: Spec, user: int | None) -> None:
    """Go where the container's process will be born: its user and process namespace."""
    if not spec["private"]:
        namespaces.adopt_orphans()
        return
    if user is not None:
        namespaces.enter(user)
    elif flags := namespaces.required_flags():
        namespaces.unshare(flags)
    namespaces.unshare(namespaces.NEW_PIDS)


def _become_container(spec: Spec, mounts: int | None, stdout: int, stderr: int, fault: int) -> NoReturn:
    kind, message = "mount", ""
    try:
        os.setsid()
        namespaces.die_with_parent(signal.SIGKILL)
        stdin = os.open(os.devnull, os.O_RDONLY)
        if spec["private"]:
            _make_view(spec, mounts)
        kind = "exec"
        os.chdir(spec["working_directory"])
        for descriptor, number in ((stdin, 0), (stdout, 1), (stderr, 2)):
            os.dup2(descriptor, number)
        _reset_signals()
        os.execvpe(spec["command"][0], spec["command"], spec["environment"])  # noqa: S606
    except (OSError, MountError, ValueError) as error:
        message = _exec_message(spec, error) if kind == "exec" else str(error)
    os.write(fault, json.dumps({"kind": kind, "message": message}).encode())
    os._exit(127)


def _make_view(spec: Spec, mounts: int | None) -> None:
    if mounts is not None:
        namespaces.enter(mounts)
    namespaces.unshare(namespaces.NEW_MOUNTS | namespaces.NEW_HOST_NAME)
    namespaces.detach_mounts()
    if spec["host_name"]:
        namespaces.set_host_name(spec["host_name"])
    tree = MountTree(stage=spec["stage"])
    tree.place(Mount(**one) for one in spec["mounts"])
    if not os.path.lexists(spec["working_directory"]):
        tree.make_target(spec["working_directory"], folder=True)
    try:
        namespaces.mount("proc", "/proc", "proc")
    except OSError:
        # Inside a container whose runtime hides parts of /proc the kernel refuses; the machine's own stays, and
        # /proc/self is right in it.
        return


def _exec_message(spec: Spec, error: Exception) -> str:
    """Word a failed start as the container runtime does, since people and rules match on it."""
    program = spec["command"][0]
    reason = getattr(error, "strerror", None) or str(error)
    if isinstance(error, FileNotFoundError) and os.path.isdir(spec["working_directory"]):
        what = f"executable file `{program}` not found in $PATH: {reason}"
    elif getattr(error, "filename", None) == spec["working_directory"]:
        what = f"chdir to `{spec['working_directory']}`: {reason}"
    else:
        what = f"exec `{program}`: {reason}"
    return f"failed to create containerd task: failed to create shim task: OCI runtime create failed: {what}: unknown"


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _end_descendants(group: int) -> None:
    """Kill what the container's program left behind, where no process namespace does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    while True:
        try:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                children = [int(pid) for pid in file.read().split()]
        except OSError:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        if not children:
            return
        os.waitpid(-1, 0)


def _write(name: str, document: Mapping[str, Any]) -> None:
    with open(f"{name}.new", "w") as file:
        json.dump(document, file)
    os.replace(f"{name}.new", name)


def _report(descriptor: int, document: Mapping[str, Any]) -> None:
    # Should the agent die while the container starts, the files tell the next one.
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptor, json.dumps(document).encode())
    os.close(descriptor)
