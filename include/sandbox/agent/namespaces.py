"""Linux namespaces and mounts by the C library: what gives a container its own view of the file system.

Unprivileged, all of it happens inside a user namespace that maps the one user to itself, so files keep their owner and
nothing is gained on the machine. https://man7.org/linux/man-pages/man7/user_namespaces.7.html
"""

from __future__ import annotations

import ctypes
import os

NEW_MOUNTS = 0x00020000
NEW_HOST_NAME = 0x04000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000

READ_ONLY = 1
REMOUNT = 32
BIND = 4096
MOVE = 8192
RECURSIVE = 16384
UNBINDABLE = 1 << 17
PRIVATE = 1 << 18

_KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: a user namespace may not drop them when it mounts again; statvfs has the
same bits."""

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Leave the shared namespaces. With `NEW_USER` the user is mapped to itself in the new one."""
    uid, gid = os.geteuid(), os.getegid()
    _checked(_libc.unshare(flags), "unshare")
    if flags & NEW_USER:
        # The kernel asks for setgroups to be given up before an unprivileged process may map its group.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def enter(descriptor: int) -> None:
    """Enter the namespace that an open /proc/<pid>/ns/ file stands for."""
    _checked(_libc.setns(descriptor, 0), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount, as mount(2) does. Paths may hold any bytes that a file name can."""
    _checked(
        _libc.mount(
            os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode() or None
        ),
        f"mount {kind or source} at {target}",
    )


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Show a file or folder at another place too, with all that is mounted below it."""
    mount(source, target, flags=BIND | RECURSIVE)
    if read_only:
        kept = os.statvfs(target).f_flag & _KEPT_FLAGS
        mount(source, target, flags=BIND | REMOUNT | READ_ONLY | kept)


def detach_mounts() -> None:
    """Let no mount of this mount namespace reach another."""
    mount("none", "/", flags=RECURSIVE | PRIVATE)


def set_host_name(name: str) -> None:
    """Set the host name of this UTS namespace."""
    data = name.encode()
    _checked(_libc.sethostname(data, len(data)), "sethostname")


def die_with_parent(signum: int) -> None:
    """Have the kernel send this process a signal when its parent is gone."""
    _checked(_libc.prctl(_SET_PARENT_DEATH_SIGNAL, signum, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _checked(_libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def fault_of_namespaces() -> str | None:
    """Return why a process here can not get private mounts, or None when it can. Tried in a child, changes nothing."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            unshare(required_flags() | NEW_PIDS | NEW_MOUNTS | NEW_HOST_NAME)
            detach_mounts()
            mount("tmpfs", "/proc", "tmpfs")
        except OSError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        fault = pipe.read().decode()
    os.waitpid(child, 0)
    return fault or None


def required_flags() -> int:
    """Return `NEW_USER` where mounting needs a user namespace, else 0 (root)."""
    return 0 if os.geteuid() == 0 else NEW_USER


REMEDY = (
    "run as root, or let users make namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; in Docker "
    "--cap-add SYS_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
)
"""What to do where :func:`fault_of_namespaces` finds a fault."""
