"""One maker at a time of what several processes may want at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

WAIT_S = 0.2


@contextmanager
def one_at_a_time(target: Path, progress: Callable[[str], None]) -> Iterator[Path]:
    """Wait until nobody else makes this file or folder; a killed maker's lock is free at once.

    :returns: the lock file, `<target>.lock`, which the holder may remove.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.with_name(f"{target.name}.lock")
    while True:
        with path.open("w") as lock:
            while not _take(lock):
                progress(f"{target.name}: waiting for another process that is at it")
                time.sleep(WAIT_S)
            if _is_in_place(lock, path):
                yield path
                return


def _take(lock: IO[str]) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _is_in_place(lock: IO[str], path: Path) -> bool:
    """Tell whether others still meet at this file: its last holder may have removed it while we waited."""
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.stat())
    except FileNotFoundError:
        return False
