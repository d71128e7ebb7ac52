"""A container's own view of the machine's file system: its volumes at the paths that it asked for.

Runs inside the container's mount namespace, before its program. Mount points that do not exist are made on a tmpfs that
covers their nearest existing folder and shows all that was in it; so the real file system is never touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from sandbox.agent import namespaces

LIMIT_OF_ENTRIES = 4000
"""Folders with more entries are not covered: each entry costs a mount."""


class MountError(Exception):
    """A volume can not be shown at its path; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A file or folder `source` of the machine that the container shall see at `target`."""

    source: str
    target: str
    read_only: bool = False


@dataclass(slots=True)
class MountTree:
    """Places mounts in this mount namespace.

    :param stage: an empty folder of the machine to build covers on.
    """

    stage: str
    _covered: set[int] = field(default_factory=set, init=False)
    _writable: list[str] = field(default_factory=list, init=False)

    def place(self, mounts: Iterable[Mount]) -> None:
        """Mount all, those nearest to the root first.

        :raises MountError: when one is impossible.
        """
        for one in sorted(mounts, key=lambda one: one.target.rstrip("/").count("/")):
            try:
                if not os.path.exists(one.source):
                    os.makedirs(one.source)  # a subPath, made at its first use as the kubelet does
                target = self.make_target(one.target, folder=os.path.isdir(one.source))
                namespaces.bind(one.source, target, read_only=one.read_only)
            except OSError as error:
                raise MountError(f"{one.target} can not be mounted: {error}") from error
            if not one.read_only:
                self._writable.append(target)

    def make_target(self, path: str, *, folder: bool) -> str:
        """Return the real path of a folder or file at `path`, which exists in this namespace from now on.

        :raises MountError: when something of the other kind is there, or its folder is too large to cover.
        """
        if not path.startswith("/"):
            raise MountError(f"{path!r} is not an absolute path")
        target = os.path.realpath(path)
        if os.path.lexists(target):
            if os.path.isdir(target) != folder or target == "/":
                raise MountError(f"{path} is {'a folder' if not folder else 'no folder that can be mounted on'} here")
            return target
        existing = os.path.dirname(target)
        while not os.path.isdir(existing):
            existing = os.path.dirname(existing)
        if os.stat(existing).st_dev not in self._covered and not self._is_in_volume(existing):
            self._cover(existing)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if folder:
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o666))
        return target

    def _is_in_volume(self, path: str) -> bool:
        """Whether a mount point below may be made in a volume itself, as container runtimes do."""
        return any(path == volume or path.startswith(f"{volume}/") for volume in self._writable)

    def _cover(self, path: str) -> None:
        """Put a tmpfs over a folder, with everything in it at its place."""
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        if len(entries) > LIMIT_OF_ENTRIES:
            raise MountError(f"{path} has {len(entries)} entries, too many to add a mount point; choose another path")
        mode = stat.S_IMODE(os.stat(path).st_mode)
        namespaces.mount("tmpfs", self.stage, "tmpfs", options=f"mode={mode:o}")
        # Unbindable: else a folder that holds the stage would show the half-built cover again below itself.
        namespaces.mount("none", self.stage, flags=namespaces.UNBINDABLE)
        for entry in entries:
            _show(entry, os.path.join(self.stage, entry.name))
        namespaces.mount("none", self.stage, flags=namespaces.PRIVATE)
        os.chdir(self.stage)
        namespaces.mount(".", path, flags=namespaces.MOVE)
        if path == "/":
            # What is mounted over the root is only seen by those whose root it is.
            os.chroot(".")
        os.chdir("/")
        self._covered.add(os.stat(path).st_dev)


def _show(entry: os.DirEntry[str], place: str) -> None:
    try:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
            return
        if entry.is_dir():
            os.mkdir(place)
        else:
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o600))
        namespaces.bind(entry.path, place)
    except OSError as error:
        # What vanished meanwhile, or what this user may not reach, was not there for the container before either.
        if not isinstance(error, FileNotFoundError | PermissionError):
            raise
