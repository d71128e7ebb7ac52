"""What the machine refuses, told in words: which folder, why, what to do."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.errors import SandboxError

MEBIBYTE = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)
REFUSALS = (
    *FULL,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EIO,
)


@contextmanager
def explained(what: str, place: Path, way_out: str, error_type: type[SandboxError] = SandboxError) -> Iterator[None]:
    """Turn the operating system's refusals of a folder into an error of ours; what else is raised passes.

    :param what: what the folder is to the user: `state folder`.
    :param way_out: what to do instead, an imperative.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:
            raise
        first = "free some space there, or " if error.errno in FULL else ""
        raise error_type(f"{what} {place} can not be used: {error}: {first}{way_out}") from error


def check_space(what: str, place: Path, needed: int, way_out: str) -> None:
    """Refuse a folder, made or not, whose disk has less than so many bytes free.

    :raises SandboxError: says how much there is and how much is needed.
    """
    free = free_bytes(place)
    if free < needed:
        raise SandboxError(
            f"{what} {place} has {free // MEBIBYTE} MiB free and {needed // MEBIBYTE} MiB are needed: "
            f"free some space there, or {way_out}"
        )


def free_bytes(place: Path) -> int:
    """Give the bytes that this user may still write to a folder's disk."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
