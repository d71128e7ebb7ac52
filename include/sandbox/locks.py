"""One maker at a time of what several processes may want at once."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 0.5


@contextmanager
def one_at_a_time(target: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Wait until nobody else makes this folder; a killed maker's lock is free at once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                progress(f"{target.name}: waiting for another process that makes it")
                time.sleep(WAIT_S)
        yield
