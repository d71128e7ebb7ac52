"""Runs one more program inside a container that runs, for a probe. Forked from the zygote; standard library only.

It sees what the container's program sees: its files, processes, host name, variables and working directory.
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

OUTPUT_LIMIT_BYTES = 10 * 1024
"""As much of its output as the kubelet looks at."""

DRAIN_S = 1.0
"""How long output is still read once the program has ended: what it started may hold the pipe."""

_NOT_STARTED = 127


def run(request: Mapping[str, Any], descriptors: Mapping[str, int]) -> None:
    """Run `command` of the request in the container of the current folder, for `timeout_s` seconds at most.

    Reports `exit_code` and `output`, or `timed_out`, or `fault` where the program could not be started.
    """
    for descriptor in descriptors.values():
        os.set_inheritable(descriptor, False)
    try:
        report = _execute(request)
    except OSError as error:
        report = {"fault": f"failed to exec in container: {error}"}
    # The agent may have lost interest, the container having ended.
    with contextlib.suppress(BrokenPipeError):
        os.write(descriptors["report"], json.dumps(report).encode())


def _execute(request: Mapping[str, Any]) -> dict[str, Any]:
    with open("spec.json") as file:
        spec = json.load(file)
    if spec["private"]:
        with open("state.json") as file:
            _enter(json.load(file)["container_pid"])
    (out, out_write), (err, err_write), (fault, fault_write) = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(request["command"], spec, out_write, err_write, fault_write)
    for descriptor in (out_write, err_write, fault_write):
        os.close(descriptor)
    with os.fdopen(fault, "rb") as pipe:
        text = pipe.read()
    if text:
        os.waitpid(pid, 0)
        return {"fault": text.decode()}
    return _await_end(pid, (out, err), request["timeout_s"])


def _enter(pid: int) -> None:
    """Enter the namespaces of the container's first process; children are in its process namespace."""
    kinds = [*(("user",) if namespaces.required_flags() else ()), "pid", "mnt", "uts"]
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in kinds]
    for descriptor in opened:
        namespaces.enter(descriptor)
        os.close(descriptor)


def _become(command: list[str], spec: Mapping[str, Any], out: int, err: int, fault: int) -> NoReturn:
    try:
        os.setsid()
        os.chdir(spec["working_directory"])
        for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
            os.dup2(descriptor, number)
        os.execvpe(command[0], command, spec["environment"])  # noqa: S606
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = (
            "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
            f"executable file `{command[0]}` not found in $PATH: {reason}: unknown"
        )
        os.write(fault, message.encode())
    os._exit(_NOT_STARTED)


def _await_end(pid: int, pipes: tuple[int, int], timeout_s: float) -> dict[str, Any]:
    outputs = dict.fromkeys(pipes, b"")
    ended = os.pidfd_open(pid)
    poll = select.poll()
    for descriptor in (*pipes, ended):
        poll.register(descriptor, select.POLLIN)
    deadline, open_pipes, code = time.monotonic() + timeout_s, set(pipes), None
    while code is None or open_pipes:
        ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        if not ready and code is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"timed_out": True}
        if not ready:
            break
        for descriptor, _ in ready:
            if descriptor == ended:
                poll.unregister(ended)
                code, deadline = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), time.monotonic() + DRAIN_S
            elif data := os.read(descriptor, 1 << 16):
                outputs[descriptor] = (outputs[descriptor] + data)[:OUTPUT_LIMIT_BYTES]
            else:
                poll.unregister(descriptor)
                open_pipes.discard(descriptor)
    output = b"".join(outputs.values())[:OUTPUT_LIMIT_BYTES].decode(errors="replace")
    return {"exit_code": code if code is None or code >= 0 else 128 - code, "output": output}
