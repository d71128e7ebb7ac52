"""`python -S -m sandbox.containerd.entering MACHINE [COMMAND… --then] PROGRAM…`: become a program of a node.

Waits for the node's machine (:mod:`sandbox.containerd.machine`), repeats the first command in it until it is done, and
becomes the program in it. Standard library only.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sandbox.containerd.cgroups import join
from sandbox.processes import POLL_S, is_alive

DEADLINE_S = 60.0
AGAIN_S = 0.2
THEN = "--then"
NAMESPACES = {"cgroup": "cgroup", "mount": "mnt"}


def main() -> None:
    """Enter and become the program."""
    machine, arguments = Path(sys.argv[1]), sys.argv[2:]
    first: list[str] = []
    if THEN in arguments:
        first, arguments = arguments[: arguments.index(THEN)], arguments[arguments.index(THEN) + 1 :]
    record = _wait_for(machine)
    join(record["group"])
    enter = ["nsenter", *(f"--{kind}=/proc/{record['pid']}/ns/{file}" for kind, file in NAMESPACES.items()), "--"]
    deadline = time.monotonic() + DEADLINE_S
    while first and subprocess.run([*enter, *first], check=False).returncode:
        if time.monotonic() > deadline:
            sys.exit(f"{first[0]} did not succeed in {DEADLINE_S:g} s")
        time.sleep(AGAIN_S)
    os.execvp(enter[0], [*enter, *arguments])  # noqa: S606 - the command line is our own


def _wait_for(machine: Path) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            record: dict[str, Any] = json.loads(machine.read_text())
        except FileNotFoundError:
            record = {"pid": 0, "start": 0}
        if is_alive(record["pid"], record["start"]):
            return record
        if time.monotonic() > deadline:
            sys.exit(f"{machine} names no machine after {DEADLINE_S:g} s: see the log of the process that makes it")
        time.sleep(POLL_S)


if __name__ == "__main__":
    main()
