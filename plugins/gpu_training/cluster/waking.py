"""Wakes the trainings that wait, a few at a time: with hundreds of them the loop still has time for everybody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from gpu_training.cluster.mirror import HOLD_S

GATHER_S: Final = HOLD_S + 0.05
"""Collections are watched apart: what one tells of is seen in the others a moment later."""
BETWEEN_S: Final = 1.0
BETWEEN_EACH_S: Final = 0.02
"""Each training that is woken thinks anew; with hundreds of them that must not happen at every breath of a node."""
_REST: Final = 4.0
"""How many times the processor time that those took who were woken the next ones wait: a fifth of a core is theirs."""
_SHORTEST_REST_S: Final = 0.002
_LONGEST_REST_S: Final = 0.15
"""A loop that is busy with others at that moment delays nobody for longer."""


class Looker(Protocol):
    """A training that may wait."""

    def concerns(self, uids: AbstractSet[str]) -> bool:
        """Whether that of its Job, or of one of its pods, is among some UIDs."""
        ...

    def notify(self) -> None:
        """Wake it."""
        ...


class Waking:
    """Wakes lookers, who was woken longest ago first. Belongs to an event loop.

    A turn wakes one of those that news are about, one of those that ask for it, and one of those that are to hear what
    concerns everybody: none of them keeps the others waiting for ever. Then it rests, four times the processor
    time that they took.

    :param spent: gives the processor time that the loop's thread has spent, in seconds.
    """

    def __init__(self, spent: Callable[[], float] = time.thread_time) -> None:
        self._spent = spent
        self._lookers: dict[Looker, float] = {}  # when each was woken, the longest ago first
        self._news: set[str] = set()
        self._news_due = float("inf")
        self._stir_due = float("inf")
        self._named: dict[Looker, None] = {}
        self._asking: dict[Looker, None] = {}
        self._owed: dict[Looker, None] = {}
        self._rested_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, who: Looker) -> bool:
        return who in self._lookers

    def __len__(self) -> int:
        return len(self._lookers)

    @property
    def between_s(self) -> float:
        """How long one is left alone, in seconds, whatever happens to everybody: the longer the more there are."""
        return max(BETWEEN_S, BETWEEN_EACH_S * len(self._lookers))

    def add(self, who: Looker) -> None:
        """Wake one from now on: it has just looked by itself."""
        self._lookers[who] = asyncio.get_running_loop().time()

    def drop(self, who: Looker) -> None:
        """Wake one no longer."""
        for kept in (self._lookers, self._named, self._asking, self._owed):
            kept.pop(who, None)

    def ask(self, who: Looker) -> bool:
        """Wake one as soon as it is its turn; False for one that is not to be woken at all."""
        if who not in self._lookers:
            return False
        self._asking.setdefault(who)
        self._schedule()
        return True

    def tell(self, uid: str) -> None:
        """Wake whom news of a Job or pod concerns, :data:`GATHER_S` seconds from now."""
        self._news.add(uid)
        self._news_due = min(self._news_due, asyncio.get_running_loop().time() + GATHER_S)
        self._schedule()

    def stir(self, *, at_once: bool = False) -> None:
        """Wake everybody, :data:`GATHER_S` seconds from now, and each one :attr:`between_s` after the last time.

        :param at_once: however short ago that was.
        """
        if at_once:
            self._lookers = dict.fromkeys(self._lookers, float("-inf"))
        self._stir_due = min(self._stir_due, asyncio.get_running_loop().time() + GATHER_S)
        self._schedule()

    def close(self) -> None:
        """Wake nobody any more."""
        for kept in (self._lookers, self._news, self._named, self._asking, self._owed):
            kept.clear()
        self._news_due = self._stir_due = float("inf")
        self._schedule()

    def _schedule(self) -> None:
        due = self._due()
        if self._timer is not None:
            if self._timer.when() == due:
                return
            self._timer.cancel()
        self._timer = None if due == float("inf") else asyncio.get_running_loop().call_at(due, self._turn)

    def _due(self) -> float:
        """Give when the next turn is."""
        due = min(self._news_due, self._stir_due)
        if self._named or self._asking:
            due = self._rested_at
        elif self._owed:
            due = min(due, self._owed_at(next(iter(self._owed))))
        return max(due, self._rested_at)

    def _owed_at(self, who: Looker) -> float:
        return self._lookers[who] + self.between_s

    def _turn(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._take_in(now)
        for who in self._next(now):
            self.drop(who)
            self._lookers[who] = now
            who.notify()
        self._timer = None
        self._rested_at = float("inf")
        # Whoever was woken goes on in the loop's next iteration, before this.
        loop.call_soon(self._rest, self._spent())

    def _take_in(self, now: float) -> None:
        if now >= self._news_due:
            news, self._news, self._news_due = self._news, set(), float("inf")
            self._named |= {who: None for who in self._lookers if who.concerns(news)}
        if now >= self._stir_due:
            self._owed, self._stir_due = dict.fromkeys(self._lookers), float("inf")

    def _next(self, now: float) -> dict[Looker, None]:
        """Give whose turn it is."""
        found = dict.fromkeys(next(iter(kept)) for kept in (self._named, self._asking) if kept)
        first = next(iter(self._owed), None)
        if first is not None and self._owed_at(first) <= now:
            found[first] = None
        return found

    def _rest(self, before: float) -> None:
        rest = min(_LONGEST_REST_S, max(_SHORTEST_REST_S, _REST * (self._spent() - before)))
        self._rested_at = asyncio.get_running_loop().time() + rest
        self._schedule()
