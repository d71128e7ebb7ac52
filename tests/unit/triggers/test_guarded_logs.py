"""Whatever goes wrong with a training's logs is a warning, and the wait ends as it would have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from tests.unit.triggers.one_job import Log

from gpu_training.triggers.followed_logs import FollowedLogs
from gpu_training.triggers.guarded_logs import guarded

pytestmark = pytest.mark.unit

STEPS = ["begin", "update", "is_caught_up", "drain", "leave"]
FAULTS: list[Exception] = [OSError(28, "no space left on device"), ValueError("year 10000 is out of range"), KeyError()]


class Logs:
    """Logs that fail at some steps.

    :ivar done: steps that were taken.
    :ivar left_with: what the block was left with.
    """

    def __init__(self, *fails: str, fault: BaseException | None = None) -> None:
        self.done: list[str] = []
        self.left_with: BaseException | None = None
        self.teller = self.notes = self
        self._fails = fails
        self._fault = fault or OSError("no space left on device")

    def _take(self, step: str) -> None:
        self.done.append(step)
        if step in self._fails:
            raise self._fault

    @property
    def is_caught_up(self) -> bool:
        self._take("is_caught_up")
        return True

    def update(self, *_: object) -> None:
        self._take("update")

    async def drain(self) -> None:
        self._take("drain")

    async def end(self) -> None:
        self._take("end")

    async def write(self) -> None:
        self._take("write")

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[FollowedLogs]:
        self._take("begin")
        try:
            yield cast("FollowedLogs", self)
        except BaseException as error:
            self.left_with = error
            raise
        finally:
            self._take("leave")


class FullLog(Log):
    """A task log that takes no warning."""

    def warning(self, message: str, *args: object, **fields: object) -> None:
        raise OSError("no space left on device")


async def wait(logs: Logs, log: Log, *, outcome: Any = "the outcome") -> Any:
    """Use logs as a training's wait does."""
    async with guarded(logs.followed(), log) as watched:
        watched.update({}, {})
        heard = watched.is_caught_up
        assert heard == ("begin" in logs.done and not {"begin", "is_caught_up"} & set(logs._fails))
        await watched.drain()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.mark.parametrize("fault", FAULTS, ids=repr)
@pytest.mark.parametrize("step", STEPS)
def test_logs_that_fail_at_one_step_are_one_warning_and_leave_the_outcome_as_it_is(step: str, fault: Exception) -> None:
    log = Log()
    assert asyncio.run(wait(Logs(step, fault=fault), log)) == "the outcome"
    (warning,) = log.warnings
    assert warning.startswith(f"What the pods say can not be told to its end: {type(fault).__name__}: ")


def test_logs_that_fail_at_every_step_are_one_warning() -> None:
    log = Log()
    assert asyncio.run(wait(Logs(*STEPS[1:], "end", "write"), log)) == "the outcome"
    assert len(log.warnings) == 1


@pytest.mark.parametrize("step", STEPS)
def test_a_task_log_that_takes_no_warning_either_leaves_the_outcome_as_it_is(step: str) -> None:
    assert asyncio.run(wait(Logs(step), FullLog())) == "the outcome"


def test_logs_that_are_well_are_no_warning() -> None:
    log, logs = Log(), Logs()
    assert asyncio.run(wait(logs, log)) == "the outcome"
    assert (logs.done, log.warnings) == (STEPS, [])


@pytest.mark.parametrize("fails", [("drain",), ("drain", "end")])
def test_what_was_kept_back_is_told_and_written_down_though_the_end_can_not_be_read(fails: tuple[str, ...]) -> None:
    logs = Logs(*fails)
    asyncio.run(wait(logs, Log()))
    assert logs.done[-4:] == ["drain", "end", "write", "leave"]


@pytest.mark.parametrize("fails", [(), ("leave",), ("begin",)])
def test_what_the_wait_itself_raises_is_raised(fails: tuple[str, ...]) -> None:
    outcome, logs = LookupError("of the wait"), Logs(*fails)
    with pytest.raises(LookupError) as raised:
        asyncio.run(wait(logs, Log(), outcome=outcome))
    assert raised.value is outcome
    assert logs.left_with is (None if "begin" in fails else outcome)


@pytest.mark.parametrize("fails", [(), ("leave",)])
def test_a_cancellation_reaches_the_logs_with_its_message_and_goes_on(fails: tuple[str, ...]) -> None:
    logs = Logs(*fails)

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def until_cancelled() -> None:
            async with guarded(logs.followed(), Log()):
                begun.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(until_cancelled())
        await begun.wait()
        task.cancel("another has taken over")
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(cancelled())
    assert isinstance(logs.left_with, asyncio.CancelledError)
    assert logs.left_with.args == ("another has taken over",)
