"""What the task log holds when a program says too much, when triggerers take turns, and when a training is deleted."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable

import pytest
from tests.cluster.trainings import (
    RESULT,
    RecordedTrigger,
    TaskInstance,
    TaskLogRecord,
    defer,
    fire,
    is_running,
    jobs_of,
    operator,
    recorded,
    spec,
)
from tests.fake_mlflow import FakeMlflow
from tests.fake_supervisor import airflow_says

from gpu_training.core import progress_document
from gpu_training.core.heard import annotation_of, from_text
from gpu_training.core.naming import ANNOTATION_PROGRESS, HEARD_PREFIX, TaskTry
from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

LEAVE_RESULT = f"echo '{RESULT}' > /dev/termination-log"
LAST_WORDS = "trap 'echo I was told to stop; exit 85' TERM; echo on it; sleep 600 & wait"
PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":10}'


def interrupted(trigger: RecordedTrigger, when: Callable[[], object], *, message: str | None = None) -> None:
    """Run a trigger and cancel it, as a triggerer that ends does; with a message as one that ends this trigger."""

    async def run() -> None:
        waiting = asyncio.create_task(trigger.wait())
        while not when():
            assert not waiting.done()
            await asyncio.sleep(0.05)
        waiting.cancel(*([] if message is None else [message]))
        await asyncio.wait({waiting})

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.case("C064")
def test_of_a_flood_the_begin_and_the_end_are_told_and_how_much_was_left_out(
    namespace: str, connected: FakeMlflow
) -> None:
    say = "for n in range(1, 40_001): print(n, 'x' * 200)"
    fail = f'python3 -c "{say}"; echo "RuntimeError: the last of all"; exit 1'
    trigger = recorded(defer(operator(spec(namespace, fail)), TaskInstance()))
    assert fire(trigger)["kind"] == "failed"

    log = trigger.record
    (notice,) = log.about("left out: ")
    left_out = int(re.findall(r"left out: (\d+) lines", notice)[0])
    numbers = [int(line.split()[0]) for line in log.about("x" * 200)]
    first = 40_000 - left_out - 99
    assert numbers == [*range(1, first + 1), *range(40_000 - 98, 40_001)]
    assert first > 5_000
    at = log.lines.index(notice)
    assert log.lines[at + 1 + 99] == "RuntimeError: the last of all"


def test_a_triggerer_that_ends_and_one_that_goes_on_tell_each_line_once(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    say = "import time\nfor n in range(1, 501): print('line', n, 'of the log', flush=True); time.sleep(0.01)"
    script = f"echo '{PROGRESS % 3}'; python3 -c \"{say}\"; {LEAVE_RESULT}"
    instance = TaskInstance()
    first = recorded(defer(operator(spec(namespace, script)), instance))
    interrupted(first, lambda: len(first.record.about(" of the log")) > 50)
    (job,) = jobs_of(sandbox, namespace)
    waiter = TaskTry.from_text(first.waiter)
    assert waiter is not None
    heard = from_text(job["metadata"]["annotations"][annotation_of(first.deployment, waiter)])
    assert heard is not None
    progress = progress_document.from_text(job["metadata"]["annotations"][ANNOTATION_PROGRESS])
    assert progress is not None
    assert progress.progress.step == 3

    second = recorded(first)
    assert fire(second)["kind"] == "succeeded"
    told = first.record.about(" of the log") + second.record.about(" of the log")
    assert told == [f"line {n} of the log" for n in range(1, 501)]
    assert second.record.about("another triggerer has stopped") != []


def test_a_waiter_that_is_gone_leaves_no_annotation_behind(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    script = f"{RUN_FOR_A_WHILE}; {LEAVE_RESULT}"
    instance = TaskInstance()
    task = operator(spec(namespace, script))
    first = recorded(defer(task, instance))
    interrupted(first, lambda: first.record.about("tick 1"))
    second = recorded(defer(task, instance.next_try()))
    assert fire(second)["kind"] == "succeeded"
    (job,) = jobs_of(sandbox, namespace)
    waiter = TaskTry.from_text(second.waiter)
    assert waiter is not None
    names = [name for name in job["metadata"]["annotations"] if name.startswith(HEARD_PREFIX)]
    assert names == [annotation_of(second.deployment, waiter)]


RUN_FOR_A_WHILE = "for n in 1 2 3 4 5 6; do echo tick $n; sleep 1; done"


def test_the_last_words_of_a_training_that_a_person_ends_are_told(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    trigger = recorded(defer(operator(spec(namespace, LAST_WORDS)), TaskInstance()))
    interrupted(trigger, lambda: trigger.record.about("on it"), message="__airflow_user_action__")
    assert is_running(sandbox, namespace)
    with airflow_says("failed"):
        asyncio.run(asyncio.wait_for(trigger.on_kill(), 30))

    assert jobs_of(sandbox, namespace) == []
    assert trigger.record.about("I was told to stop") == ["I was told to stop"]
    assert trigger.record.lines.count("on it") == 1


@pytest.mark.case("C047")
def test_pods_that_do_not_go_are_listened_to_for_a_while_and_then_that_is_said(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpu_training.triggers.training._LAST_WORDS_S", 1.0)
    stubborn = "trap 'echo not yet' TERM; echo on it; while true; do sleep 1 & wait; done"
    trigger = recorded(defer(operator(spec(namespace, stubborn)), TaskInstance()))
    interrupted(trigger, lambda: trigger.record.about("on it"), message="__airflow_user_action__")
    with airflow_says("failed"):
        asyncio.run(asyncio.wait_for(trigger.on_kill(), 30))

    assert trigger.record.about("not yet") != []
    assert trigger.record.about("are not gone after 1 s: what they say from now on is not told") != []


def test_the_last_words_of_a_training_that_is_given_up_are_told(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    clocks = {"run_seconds": 3}
    trigger = recorded(defer(operator(spec(namespace, LAST_WORDS, clocks=clocks)), TaskInstance()))
    with airflow_says("deferred"):
        assert fire(trigger)["kind"] == "timed_out"

    wait_for(lambda: jobs_of(sandbox, namespace) == [], 30, "the end of the Job")
    assert trigger.record.about("I was told to stop") == ["I was told to stop"]


def test_what_was_heard_is_plain_json_of_a_modest_size(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    trigger = recorded(defer(operator(spec(namespace, f"echo hello; {LEAVE_RESULT}")), TaskInstance()))
    assert fire(trigger)["kind"] == "succeeded"
    (job,) = jobs_of(sandbox, namespace)
    (text,) = [value for name, value in job["metadata"]["annotations"].items() if name.startswith(HEARD_PREFIX)]
    assert json.loads(text)["v"] == 1
    assert len(text) < 1000


class FullRecord(TaskLogRecord):
    """A task log whose disk is full for whatever is about what pods say.

    :param takes: how many such records it takes before.
    """

    def __init__(self, takes: int) -> None:
        super().__init__()
        self._takes = takes

    def info(self, message: str, *args: object, **fields: object) -> None:
        if "loc" in fields:
            self._takes -= 1
            if self._takes < 0:
                raise OSError(28, "no space left on device")
        super().info(message, *args, **fields)


@pytest.mark.parametrize("takes", [0, 1, 2], ids=["from its begin", "from the first line", "from a later line"])
@pytest.mark.parametrize(("end", "kind"), [(LEAVE_RESULT, "succeeded"), ("exit 1", "failed")])
def test_a_task_log_that_takes_no_lines_leaves_the_end_of_a_training_as_it_is(
    namespace: str, connected: FakeMlflow, takes: int, end: str, kind: str
) -> None:
    trigger = recorded(
        defer(operator(spec(namespace, f"echo one; echo '{PROGRESS % 3}'; echo two; {end}")), TaskInstance())
    )
    trigger.record = FullRecord(takes)
    assert fire(trigger)["kind"] == kind
    assert any("no space left on device" in line for line in trigger.record.lines)
