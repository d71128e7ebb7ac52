"""The control groups of a node's containers: whether this machine has any that fit, and their end."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from sandbox.processes import Process, kill_all, read_process

MOUNT = Path("/sys/fs/cgroup")
UNIFIED = MOUNT / "unified"
NEEDED = ("cpu", "cpuacct", "memory", "pids", "devices", "freezer")
NEEDED_UNIFIED = {"cpu", "memory", "pids"}
END_DEADLINE_S = 20.0


def obstacle(mount: Path = MOUNT) -> str | None:
    """Say why no control groups of this machine fit; None when they do.

    Version 1 and hybrid hierarchies were tried, version 2 alone was not.
    """
    if (mount / "cgroup.controllers").exists():
        missing = NEEDED_UNIFIED - set((mount / "cgroup.controllers").read_text().split())
    else:
        missing = {name for name in NEEDED if not (mount / name / "cgroup.procs").exists()}
    if missing:
        named = ", ".join(sorted(missing))
        return f"{mount} has no control groups of {named}: mount them there, or run where they are, not in a container"
    closed = next((root for root in _hierarchies(mount) if not os.access(root, os.W_OK)), None)
    return f"{closed} is read-only: mount it writable, or run where it is" if closed else None


def group_of(node_folder: Path) -> str:
    """Give the name of a node's own control group, the same for the same folder and no other's."""
    return f"gpu-training-{hashlib.sha256(str(node_folder).encode()).hexdigest()[:16]}"


def remove_group(name: str, mount: Path = MOUNT) -> None:
    """End all processes of a control group and remove it from all hierarchies; what there is none of is no harm.

    :raises ProcessError: some process outlives its SIGKILL.
    """
    tops = [top for root in _hierarchies(mount) if (top := root / name).is_dir()]
    kill_all(lambda: [process for top in tops for process in _members(top)], deadline_s=END_DEADLINE_S)
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(folder)


def _hierarchies(mount: Path) -> list[Path]:
    if (mount / "cgroup.controllers").exists():
        return [mount]
    return [path for path in sorted(mount.iterdir()) if not path.is_symlink() and (path / "cgroup.procs").exists()]


def _members(top: Path) -> list[Process]:
    found = []
    for folder, _, _ in os.walk(top):
        with contextlib.suppress(OSError):
            pids = (Path(folder) / "cgroup.procs").read_text().split()
            found += [process for pid in pids if (process := read_process(int(pid)))]
    return found
