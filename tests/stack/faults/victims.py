"""The deaths: which processes go, all by SIGKILL, and what is started anew as a service manager would."""

from __future__ import annotations

import signal

from tests.stack.faults.matrix import Strike, Victim

from sandbox.processes import Process, kill_all, read_process, send
from sandbox.waiting import wait_for
from stack import process_tree
from stack.lifecycle import Stack

_DEADLINE_S = 20.0
SCHEDULER, TRIGGERER = "scheduler-1", "triggerer-1"


class TooLate(Exception):
    """The process that was to die had ended by itself."""


def process_of(pid: int) -> Process:
    """Give the process of a task.

    :raises TooLate: it runs no more.
    """
    process = read_process(pid)
    if process is None:
        raise TooLate(f"process {pid} of the task has ended")
    return process


def freeze(process: Process) -> None:
    """Have a process do nothing more until it is killed or :func:`thaw` is called."""
    send(process, signal.SIGSTOP)


def thaw(process: Process) -> None:
    send(process, signal.SIGCONT)


def kill_task(task: Process, victim: Victim) -> None:
    """Kill a task's process, or its worker's with it: as one, none sees the other die.

    :param victim: TASK or WORKER.
    """
    if victim is Victim.WORKER:
        process_tree.kill(task.parent)
        return
    kill_all(lambda: [task] if read_process(task.pid) == task else [], deadline_s=_DEADLINE_S)


def strike(stack: Stack, kind: Strike) -> None:
    """Kill what all runs share; it is started again at once, and not waited for."""
    if kind is Strike.SCHEDULER:
        _kill_and_restart(stack, SCHEDULER)
    elif kind is Strike.TRIGGERER:
        _kill_and_restart(stack, TRIGGERER)
    elif kind is Strike.TRIGGER_PROCESS:
        _kill_trigger_process(stack)
    else:
        raise ValueError(f"strike {kind!r}: give one that hits what all runs share")


def _kill_and_restart(stack: Stack, name: str) -> None:
    service = stack.service(name)
    service.kill()
    service.restart()


def _kill_trigger_process(stack: Stack) -> None:
    """Kill what the triggers run in. The triggerer notices, and ends."""
    service = stack.service(TRIGGERER)
    first, *others = process_tree.members(service.pid)
    for process in others:
        send(process, signal.SIGKILL)
    wait_for(lambda: read_process(first.pid) != first, _DEADLINE_S, "the end of a triggerer that lost its triggers")
    service.restart()
