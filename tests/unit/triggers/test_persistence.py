"""Work that is seen through, whoever cancels its wait."""

from __future__ import annotations

import asyncio

import pytest

from gpu_training.triggers.persistence import see_through

pytestmark = pytest.mark.unit


async def cancel_at_each_turn(task: asyncio.Task[str], turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
        task.cancel()


def test_work_goes_on_to_its_end_through_any_number_of_cancellations() -> None:
    async def main() -> str:
        done = asyncio.Event()

        async def work() -> str:
            await done.wait()
            return "done"

        task = asyncio.create_task(see_through(work(), limit=60))
        await cancel_at_each_turn(task, 20)
        done.set()
        return await task

    assert asyncio.run(main()) == "done"


def test_what_the_work_raises_is_raised() -> None:
    async def work() -> str:
        raise OSError("no answer")

    with pytest.raises(OSError, match="no answer"):
        asyncio.run(see_through(work(), limit=60))


def test_after_the_limit_a_cancellation_ends_the_wait_and_the_work_goes_on_alone() -> None:
    async def main() -> str:
        done, ended = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def work() -> str:
            await done.wait()
            ended.set_result("ended")
            return "done"

        task = asyncio.create_task(see_through(work(), limit=0))
        await cancel_at_each_turn(task, 3)
        with pytest.raises(asyncio.CancelledError):
            await task
        done.set()
        return str(await ended)

    assert asyncio.run(main()) == "ended"
