"""A collection of the surroundings, mirrored: what is known of it now, or why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, Generic

from gpu_training.cluster.collections_around import Place
from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.hidden import REFUSED_S, why
from gpu_training.cluster.reflector import Kept, Pace, Reflector, is_refusal

RESYNC_S: Final = 1800.0
"""A list of thousands of nodes is dear, and a lost event here costs no training anything."""
HOLD_S: Final = 0.25
"""What is worked out of the values of thousands of objects is kept for as long as they are the same tuple. Where one of
them changes at every moment, that shall not be for nothing."""
LONGEST_PAUSE_S: Final = 60.0
_TROUBLE_S: Final = 20.0
"""A watch that breaks and goes on is not worth a word."""


class Mirror(Generic[Kept]):
    """Keeps a collection's values current. A fault keeps what was known, a refusal forgets it.

    :param changed: called with each value that is new or different.
    :param removed: called with each value that is gone.
    :param stirred: called when the collection becomes known or unknown.
    :ivar answered: set when the collection was listed, or refused, for the first time.
    :ivar is_refused: set while the collection may not be read or does not exist.
    """

    def __init__(
        self,
        cluster: Cluster,
        place: Place[Kept],
        *,
        changed: Callable[[Kept], None] | None = None,
        removed: Callable[[Kept], None] | None = None,
        stirred: Callable[[], None],
    ) -> None:
        self.word = place.word
        self.answered = asyncio.Event()
        self.is_refused = asyncio.Event()
        self._changed = changed
        self._removed = removed
        self._stirred = stirred
        self._values: tuple[Kept, ...] | None = None
        self._is_old = False
        self._taken_at = 0.0
        self._trouble: Exception | None = None
        self._trouble_since = 0.0
        self._reflector: Reflector[Kept | None] = Reflector(
            cluster,
            place.path,
            place.query,
            take=place.take,
            changed=self._on_changed,
            removed=self._on_removed,
            listed=self._on_listed,
            trouble=self._on_trouble,
            pace=Pace(page=place.page, resync=RESYNC_S, refused=REFUSED_S, longest_pause=LONGEST_PAUSE_S),
        )

    async def run(self) -> None:
        """Go on until cancelled."""
        await self._reflector.run()

    @property
    def is_listed(self) -> bool:
        """Whether the first list is there, so that what changes from now on is news."""
        return self._reflector.is_listed

    @property
    def is_known(self) -> bool:
        """Whether it could be read, and may be."""
        return self._reflector.is_listed and not self.is_refused.is_set()

    @property
    def values(self) -> tuple[Kept, ...] | None:
        """Everything that there is now; None while that can not be known. The same tuple until something has changed,
        and for :data:`HOLD_S` seconds at least."""
        if not self.is_known:
            return None
        if self._values is None or (self._is_old and monotonic() >= self._taken_at + HOLD_S):
            self._values = tuple(value for value in self._reflector.kept() if value is not None)
            self._taken_at = monotonic()
            self._is_old = False
        return self._values

    @property
    def hidden(self) -> str | None:
        """Why the values are not known, or may be old; None when they are current."""
        if self._trouble is None:
            return None if self._reflector.is_listed else f"{self.word}: not looked at yet"
        lasting = monotonic() - self._trouble_since > _TROUBLE_S or not self._reflector.is_listed
        if self.is_refused.is_set() or lasting:
            return f"{self.word}: {why(self._trouble)}"
        return None

    def _on_changed(self, value: Kept | None) -> None:
        self._is_old = True
        if self._changed is not None and value is not None:
            self._changed(value)

    def _on_removed(self, value: Kept | None) -> None:
        self._is_old = True
        if self._removed is not None and value is not None:
            self._removed(value)

    def _on_listed(self) -> None:
        self._values = None
        self._on_answered()

    def _on_trouble(self, error: Exception | None) -> None:
        if error is not None and self._trouble is None:
            self._trouble_since = monotonic()
        self._trouble = error
        if is_refusal(error) and not self.is_refused.is_set():
            self.is_refused.set()
            self.answered.set()
            self._stirred()
        elif error is None and self.is_refused.is_set():
            self.is_refused.clear()
            self._stirred()

    def _on_answered(self) -> None:
        if not self.answered.is_set():
            self.answered.set()
            self._stirred()
