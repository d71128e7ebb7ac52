"""The control groups of a node: whether this machine has any that fit, a view in which the node has all, their end.

A node's programs and containers are below one group of each hierarchy. In a control group namespace that group is the
root, so that what they make there is neither in the machine's way nor in another node's. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import os
import subprocess
from functools import partial
from pathlib import Path

from sandbox.errors import SandboxError
from sandbox.processes import Process, kill_all, read_process
from sandbox.waiting import wait_for

MOUNT = Path("/sys/fs/cgroup")
UNIFIED = "unified"
NEEDED = ("cpu", "cpuacct", "memory", "pids", "devices", "freezer")
NEEDED_UNIFIED = {"cpu", "memory", "pids"}
OWN = "programs"
"""The group of the node's own programs: one of version 2 may have processes or groups with limits in it, not both."""
PROCESSES = "cgroup.procs"
CPUSETS = ("cpuset.cpus", "cpuset.mems")
CLONE_NEWCGROUP = 0x02000000
END_DEADLINE_S = 20.0


def obstacle(mount: Path = MOUNT) -> str | None:
    """Say why no control groups of this machine fit; None when they do.

    Version 1 and hybrid hierarchies were tried, version 2 alone was not.
    """
    if _is_version_2(mount):
        missing = NEEDED_UNIFIED - set((mount / "cgroup.controllers").read_text().split())
    else:
        missing = {name for name in NEEDED if not (mount / name / PROCESSES).exists()}
    if missing:
        named = ", ".join(sorted(missing))
        return f"{mount} has no control groups for {named}: mount them there, or run outside of the container this is"
    closed = next((root for root in _hierarchies(mount) if not os.access(root, os.W_OK)), None)
    return f"{closed} is read-only: mount it writable, or run outside of the container this is" if closed else None


def group_of(node_folder: Path) -> str:
    """Give the name of a node's own control group, the same for the same folder and no other's."""
    return f"gpu-training-{hashlib.sha256(str(node_folder).encode()).hexdigest()[:16]}"


def join(name: str, mount: Path = MOUNT) -> None:
    """Put this process among the node's own programs."""
    for root in _hierarchies(mount):
        (_made(root / name / OWN) / PROCESSES).write_text(str(os.getpid()))


def take_for_all(name: str, mount: Path = MOUNT) -> None:
    """Make the node's group the root of all groups that this process sees, which has a mount namespace of its own.

    On a hybrid machine only version 1 is seen then: crun takes one with both for version 2 and finds no controllers.
    """
    kinds = {root: _kind_of(root) for root in _hierarchies(mount)}
    for root in kinds:
        (_made(root / name) / PROCESSES).write_text(str(os.getpid()))
    unshare(CLONE_NEWCGROUP)
    for root in [*kinds, *(each for each in (mount / UNIFIED,) if os.path.ismount(each))]:
        subprocess.run(["umount", "--lazy", root], check=True)
    for root, (version, options) in kinds.items():
        subprocess.run(["mount", "-t", version, *(("-o", options) if options else ()), version, root], check=True)
        (_made(root / OWN) / PROCESSES).write_text(str(os.getpid()))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones of one's own: unshare(2), which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), f"unshare({flags:#x}): {os.strerror(ctypes.get_errno())}")


def remove_group(name: str, mount: Path = MOUNT) -> None:
    """End all processes of a node's group and remove it from all hierarchies; what there is none of is no harm.

    :raises SandboxError: some process outlives its SIGKILL, or a group stays busy.
    """
    tops = [top for root in _hierarchies(mount) if (top := root / name).is_dir()]
    kill_all(lambda: [process for top in tops for process in _members(top)], deadline_s=END_DEADLINE_S)
    for top in tops:
        for folder, _, _ in os.walk(top, topdown=False):
            wait_for(partial(_remove, folder), END_DEADLINE_S, f"the control group {folder} to let its processes go")


def _remove(folder: str) -> bool:
    """Remove a group; False while the kernel still counts a process in it that has ended."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return False
    return True


def _hierarchies(mount: Path) -> list[Path]:
    """Give the folders of the hierarchies that count; of a hybrid machine those of version 1."""
    if _is_version_2(mount):
        return [mount]
    return [
        path
        for path in sorted(mount.glob("*"))
        if path.name != UNIFIED and not path.is_symlink() and (path / PROCESSES).exists()
    ]


def _is_version_2(mount: Path) -> bool:
    return (mount / "cgroup.controllers").exists()


def _kind_of(root: Path) -> tuple[str, str]:
    """Give the file system of a hierarchy and the options that mean it: proc_pid_mountinfo(5)."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place, _, kind = line.partition(" - ")
        if place.split()[4] == str(root):
            version, _, options = kind.split()
            return version, ",".join(each for each in options.split(",") if version == "cgroup" and each != "rw")
    raise SandboxError(f"{root} has control groups and is no mount of its own: mount them there")


def _made(group: Path) -> Path:
    group.mkdir(exist_ok=True)
    for setting in CPUSETS:
        # A new group has none, and no process may be in one without: cgroups(7), cpuset.
        if (group / setting).exists() and not (group / setting).read_text().strip():
            (group / setting).write_text((group.parent / setting).read_text())
    return group


def _members(top: Path) -> list[Process]:
    found = []
    for folder, _, _ in os.walk(top):
        with contextlib.suppress(OSError):
            pids = (Path(folder) / PROCESSES).read_text().split()
            found += [process for pid in pids if (process := read_process(int(pid)))]
    return found
