"""Folders of the cache that are made once, whole or not at all."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from sandbox.errors import BuildError
from sandbox.locks import one_at_a_time

SHOWN_LINES = 12


def cached(target: Path, progress: Callable[[str], None], make: Callable[[Path], None]) -> Path:
    """Give a folder, made first where there is none; two makers at once wait for one another.

    :param make: fills an empty folder beside the target, which then takes its name: what has it is whole.
    """
    if target.is_dir():
        return target
    with one_at_a_time(target, progress):
        if target.is_dir():
            return target
        for leftover in target.parent.glob(f".{target.name}.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            make(draft)
            draft.chmod(0o755)
            draft.rename(target)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return target


def run(title: str, command: Sequence[object], *, remedy: str = "") -> str:
    """Run a program to its end, and give its output.

    :param remedy: what to do when it fails.
    :raises BuildError: it failed; the message ends with its own words.
    """
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        words = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-SHOWN_LINES:])
        raise BuildError(f"{title} failed with exit code {done.returncode}{remedy and ': '}{remedy}\n{words}")
    return done.stdout
