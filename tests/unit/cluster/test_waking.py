"""Who is woken when, where many wait: a few at a time, in order, and nobody never. The loop's time is made here."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import cast

import pytest
from tests.unit.cluster.leaping_loop import LeapingLoop, leap

from gpu_training.cluster.waking import BETWEEN_S, GATHER_S, Waking

pytestmark = pytest.mark.unit

COST_S = 0.0125
"""What it takes to count 5,000 nodes that nobody has counted yet."""
SOON_S = 3.0
FEW = 15


def the_loop() -> LeapingLoop:
    return cast(LeapingLoop, asyncio.get_running_loop())


class Thinker:
    """Takes a while to think whenever it is woken.

    :ivar woken_at: by the loop's time.
    """

    def __init__(self, uid: str, cost: float) -> None:
        self.uid = uid
        self.cost = cost
        self.woken_at: list[float] = []
        self._news = asyncio.Event()

    def concerns(self, uids: AbstractSet[str]) -> bool:
        return self.uid in uids

    def notify(self) -> None:
        self.woken_at.append(the_loop().now)
        self._news.set()

    async def think(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            the_loop().now += self.cost


class Crowd:
    def __init__(self, number: int, cost: float) -> None:
        self.waking = Waking(spent=the_loop().time)
        self.thinkers = [Thinker(f"uid-{count}", cost) for count in range(number)]
        for each in self.thinkers:
            self.waking.add(each)

    @property
    def wakes(self) -> list[tuple[float, str]]:
        """When each wake was, and whose."""
        return sorted((at, each.uid) for each in self.thinkers for at in each.woken_at)

    def forget(self) -> None:
        for each in self.thinkers:
            each.woken_at.clear()

    async def keep_stirring(self, seconds: float, every: float = 0.1) -> None:
        end = the_loop().now + seconds
        while the_loop().now < end:
            self.waking.stir()
            await asyncio.sleep(every)


@asynccontextmanager
async def crowd(number: int, cost: float = COST_S) -> AsyncIterator[Crowd]:
    """Give trainings that were left alone for long enough."""
    crowd = Crowd(number, cost)
    tasks = [asyncio.create_task(each.think()) for each in crowd.thinkers]
    await asyncio.sleep(crowd.waking.between_s)
    yield crowd
    for task in tasks:
        task.cancel()


def test_hundreds_are_woken_one_after_the_other_and_take_a_fifth_of_the_time() -> None:
    async def scene() -> None:
        async with crowd(500) as all_:
            all_.waking.stir()
            await asyncio.sleep(60)
            assert Counter(len(each.woken_at) for each in all_.thinkers) == {1: 500}
            times = [at for at, _ in all_.wakes]
            assert min(later - sooner for sooner, later in pairwise(times)) > 4.99 * COST_S
            assert times[-1] - times[0] < 6 * COST_S * 500

    leap(scene())


def test_hundreds_whose_thought_is_shared_are_all_told_within_seconds() -> None:
    async def scene() -> None:
        async with crowd(500, cost=0.0003) as all_:
            all_.waking.stir()
            await asyncio.sleep(SOON_S)
            assert all(len(each.woken_at) == 1 for each in all_.thinkers)

    leap(scene())


@pytest.mark.parametrize("cost", [0.0003, COST_S])
def test_a_few_are_all_told_within_three_seconds_of_a_change_however_much_changes(cost: float) -> None:
    async def scene() -> None:
        async with crowd(FEW, cost) as all_:
            began = the_loop().now
            await all_.keep_stirring(30)
            await asyncio.sleep(SOON_S)
            for each in all_.thinkers:
                looks = [began, *each.woken_at]
                assert max(later - sooner for sooner, later in pairwise(looks)) + GATHER_S < SOON_S
                assert each.woken_at[-1] > began + 30

    leap(scene())


def test_nobody_is_woken_often_because_of_what_concerns_everybody() -> None:
    async def scene() -> None:
        for number in (1, 500):
            async with crowd(number, cost=0.0003) as all_:
                await all_.keep_stirring(35)
                between = all_.waking.between_s
                assert between == (BETWEEN_S if number == 1 else 10.0)
                for each in all_.thinkers:
                    assert min(later - sooner for sooner, later in pairwise(each.woken_at)) >= between - 1e-6

    leap(scene())


def test_who_was_woken_longest_ago_is_woken_first() -> None:
    async def scene() -> None:
        async with crowd(4) as all_:
            for uid in ("uid-2", "uid-0"):
                all_.waking.tell(uid)
                await asyncio.sleep(1)
            all_.forget()
            all_.waking.stir()
            await asyncio.sleep(5)
            assert [uid for _, uid in all_.wakes] == ["uid-1", "uid-3", "uid-2", "uid-0"]

    leap(scene())


def test_news_wake_whom_they_are_about_before_all_that_wait_for_what_concerns_everybody() -> None:
    async def scene() -> None:
        async with crowd(500) as all_:
            all_.waking.stir()
            await asyncio.sleep(2)
            told = the_loop().now
            all_.waking.tell("uid-499")
            await asyncio.sleep(1)
            (at,) = all_.thinkers[499].woken_at
            assert GATHER_S <= at - told < 2 * GATHER_S
            assert all_.thinkers[498].woken_at == []

    leap(scene())


def test_news_about_hundreds_wake_them_one_after_the_other() -> None:
    async def scene() -> None:
        async with crowd(500) as all_:
            for each in all_.thinkers:
                all_.waking.tell(each.uid)
            await asyncio.sleep(60)
            assert Counter(len(each.woken_at) for each in all_.thinkers) == {1: 500}
            assert set(Counter(at for at, _ in all_.wakes).values()) == {1}

    leap(scene())


def test_hundreds_that_ask_at_the_same_moment_are_woken_one_after_the_other() -> None:
    async def scene() -> None:
        async with crowd(500) as all_:
            for each in all_.thinkers:
                assert all_.waking.ask(each)
                assert all_.waking.ask(each)
            await asyncio.sleep(60)
            assert Counter(len(each.woken_at) for each in all_.thinkers) == {1: 500}
            assert set(Counter(at for at, _ in all_.wakes).values()) == {1}

    leap(scene())


def test_one_that_asks_alone_is_woken_at_once() -> None:
    async def scene() -> None:
        async with crowd(1) as alone:
            began = the_loop().now
            assert alone.waking.ask(alone.thinkers[0])
            await asyncio.sleep(1)
            assert alone.thinkers[0].woken_at == [began]

    leap(scene())


def test_nobody_starves_while_there_is_news_of_others_and_others_ask_without_end() -> None:
    async def scene() -> None:
        async with crowd(60) as all_:
            loud, eager, quiet = all_.thinkers[:20], all_.thinkers[20:40], all_.thinkers[40:]
            for _ in range(300):
                for each in loud:
                    all_.waking.tell(each.uid)
                for each in eager:
                    all_.waking.ask(each)
                all_.waking.stir()
                await asyncio.sleep(0.1)
            for some in (loud, eager, quiet):
                assert min(len(each.woken_at) for each in some) >= 2
            assert max(Counter(at for at, _ in all_.wakes).values()) <= 3

    leap(scene())


def test_all_are_told_what_is_settled_however_short_ago_they_were_woken() -> None:
    async def scene() -> None:
        async with crowd(FEW, cost=0.0003) as all_:
            all_.waking.stir()
            await asyncio.sleep(2 * GATHER_S)
            all_.forget()
            all_.waking.stir(at_once=True)
            await asyncio.sleep(2 * GATHER_S)
            assert all(len(each.woken_at) == 1 for each in all_.thinkers)

    leap(scene())


def test_a_loop_that_is_busy_with_others_at_that_moment_does_not_keep_the_next_one_waiting() -> None:
    async def scene() -> None:
        async with crowd(3, cost=5.0) as all_:
            all_.waking.stir()
            await asyncio.sleep(30)
            times = [at for at, _ in all_.wakes]
            assert [round(later - sooner, 2) for sooner, later in pairwise(times)] == [5.15, 5.15]

    leap(scene())


def test_who_waits_no_longer_is_not_woken() -> None:
    async def scene() -> None:
        async with crowd(3) as all_:
            first, second, third = all_.thinkers
            all_.waking.stir()
            all_.waking.tell(first.uid)
            all_.waking.ask(first)
            all_.waking.drop(first)
            await asyncio.sleep(5)
            assert (len(first.woken_at), len(second.woken_at), len(third.woken_at)) == (0, 1, 1)
            assert not all_.waking.ask(first)
            all_.waking.stir()
            all_.waking.ask(second)
            all_.waking.close()
            await asyncio.sleep(5)
            assert (len(second.woken_at), len(third.woken_at), len(all_.waking)) == (1, 1, 0)

    leap(scene())
