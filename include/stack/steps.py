"""Steps of a start: what each takes, several at once, and one failure that stops the waiting for all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

_LOOK_S = 0.5


class Listener(Protocol):
    """Who is told of steps; from several threads."""

    def tell(self, step: str, state: str) -> None:
        """A step began or got on."""

    def finish(self, step: str, seconds: float) -> None:
        """A step succeeded."""


class Steps:
    """Named steps and the seconds that each took.

    :ivar seconds: by step, for those that succeeded.
    """

    def __init__(self, listener: Listener) -> None:
        self.seconds: dict[str, float] = {}
        self._listener = listener
        self._lock = threading.Lock()

    @contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Time what happens inside; gives a function that says how far the step is."""
        started = time.monotonic()
        self._tell(name, "started")
        yield lambda state: self._tell(name, state)
        seconds = time.monotonic() - started
        with self._lock:
            self.seconds[name] = round(seconds, 1)
            self._listener.finish(name, seconds)

    def _tell(self, name: str, state: str) -> None:
        with self._lock:
            self._listener.tell(name, state)


def run_together(parts: Sequence[Callable[[], None]], *, give_up: Callable[[], None], patience_s: float = 20.0) -> None:
    """Run parts at once, and return when all have ended.

    :param give_up: called when a part fails or this is interrupted; it makes the other parts fail soon.
    :param patience_s: how long the others are waited for then; the threads never outlive the process.
    :raises Exception: the first failure.
    """
    failures: list[BaseException] = []
    over = threading.Event()
    running = len(parts)
    lock = threading.Lock()

    def run(part: Callable[[], None]) -> None:
        nonlocal running
        try:
            part()
        except BaseException as error:
            failures.append(error)
            over.set()
        finally:
            with lock:
                running -= 1
                if running == 0:
                    over.set()

    threads = [threading.Thread(target=run, args=(part,), daemon=True) for part in parts]
    for thread in threads:
        thread.start()
    try:
        while not over.wait(_LOOK_S):
            pass
        if failures:
            raise failures[0]
    except BaseException:
        give_up()
        deadline = time.monotonic() + patience_s
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        raise
