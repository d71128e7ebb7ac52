"""Commands run in situations that a sandbox may meet, made for real in namespaces that vanish with the command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = str(ROOT / "include")
USER = 65534


def with_mounts(*mounts: str) -> list[str]:
    """Give the beginning of a command with mounts of its own: `-t tmpfs -o size=1m none /folder`."""
    roots = [] if os.geteuid() == 0 else ["--map-root-user"]
    script = "".join(f"mount {each} && " for each in mounts) + 'exec "$@"'
    return ["unshare", *roots, "--mount", "sh", "-c", script, "sh"]


def without_root(*, namespaces: bool) -> list[str]:
    """Give the beginning of a command that is run by a user without any privilege.

    :param namespaces: whether that user may make namespaces.
    """
    script = "" if namespaces else "echo 0 > /proc/sys/user/max_user_namespaces && "
    drop = f'{script}exec setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all --no-new-privs "$@"'
    mapped = [f"--map-user={USER}", f"--map-group={USER}"]
    return ["unshare", "--user", *mapped, "--keep-caps", "sh", "-c", drop, "sh"]


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the sandbox, and wait for its end."""
    environment = os.environ | {"PYTHONPATH": f"{INCLUDE}:{ROOT}"} | variables
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def python(script: str, *arguments: str | Path) -> list[str | Path]:
    """Give the command that runs a script."""
    return [sys.executable, "-c", script, *arguments]


def sandbox_command(*arguments: str | Path) -> list[str | Path]:
    """Give a command of the sandbox."""
    return [sys.executable, "-m", "sandbox", *arguments]


def _fault() -> str:
    return run(*with_mounts(), *without_root(namespaces=True), "true").stderr.strip()


needs_namespaces = pytest.mark.skipif(bool(fault := _fault()), reason=f"no namespaces to try it in: {fault}")
