"""The task log gets what the pods say: each line once, progress as words, and of a flood the begin and the end."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.unit.core.log_stamps import stamp, stamped
from tests.unit.triggers.task_log_double import Clock, Records

from gpu_training.core.hearing import Hearing
from gpu_training.core.log_allowance import Limits
from gpu_training.core.log_lines import Batch, Position, Reading
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers import log_teller as log_teller_module
from gpu_training.triggers.log_teller import LogTeller

pytestmark = pytest.mark.unit

PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":10}'
TIGHT = Limits(lines_per_second=1, burst_lines=4, tail_lines=2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(log_teller_module, "monotonic", clock)
    return clock


class Scene:
    """One training's logs, and what is told of them."""

    def __init__(self, clock: Clock, *, limits: Limits | None = None, told: Position | None = None) -> None:
        self.log = Records()
        self.hearing = Hearing(built_in_rules())
        positions = {} if told is None else {("p", "training"): told}
        self.teller = LogTeller(
            self.log, self.hearing, namespace="ml", told=positions, limits=limits, later=clock.later
        )
        self._said = 0

    def say(self, *texts: str, pod: str = "p", container: str = "training") -> None:
        lines = [stamped(self._said + n, text) for n, text in enumerate(texts)]
        self._said += len(texts)
        self.teller.take(Batch(pod=pod, container=container, lines=lines, live=True, now=5.0))


def at(n: int, count: int = 1) -> Position:
    reading = Reading()
    reading.new_lines([stamped(n, "said")] * count)
    return reading.position


def test_lines_say_whose_they_are_when_the_speaker_changes(clock: Clock) -> None:
    scene = Scene(clock)
    scene.say("a", "", container="download")
    scene.say("100 %s done")
    assert scene.log.lines == [
        "log of pod p, container download:",
        "a",
        "",
        "log of pod p, container training:",
        "100 %s done",
    ]
    assert scene.log.locs == [None, f"p download {stamp(0)}", f"p download {stamp(1)}", None, f"p training {stamp(2)}"]


@pytest.mark.case("C069")
def test_progress_is_told_as_words_at_a_pace_and_at_the_end(clock: Clock) -> None:
    scene = Scene(clock)
    for step in range(1, 11):
        scene.say(PROGRESS % step)
        clock.pass_by(0.7)
    scene.say(PROGRESS % 10)
    asyncio.run(scene.teller.end())

    steps = [line.split()[3] for line in scene.log.lines]
    assert steps == ["1/10", "3/10", "6/10", "9/10", "10/10"]
    assert scene.log.locs[-1] == f"p training {stamp(10)}"


def test_progress_that_was_not_told_is_told_though_nothing_more_is_said(clock: Clock) -> None:
    scene = Scene(clock)
    scene.say(PROGRESS % 1, PROGRESS % 2)
    scene.say(PROGRESS % 3)
    assert [line.split()[3] for line in scene.log.lines] == ["2/10"]
    clock.pass_by(2)
    assert [line.split()[3] for line in scene.log.lines] == ["2/10", "3/10"]
    assert clock.waiting == 0


def test_what_the_training_container_says_is_held_against_the_failure_rules(clock: Clock) -> None:
    scene = Scene(clock)
    scene.say("CUDA out of memory", container="sidecar")
    assert scene.hearing.findings == {}
    scene.say("CUDA out of memory")
    assert scene.hearing.findings == {"p": "cuda-out-of-memory"}
    assert scene.log.lines[-1] == "CUDA out of memory"


def test_only_the_training_container_tells_progress(clock: Clock) -> None:
    scene = Scene(clock)
    scene.say(PROGRESS % 1, container="sidecar")
    assert scene.log.lines[-1] == PROGRESS % 1


def test_of_a_flood_the_begin_is_told_and_when_it_pauses_what_was_left_out_and_the_end(clock: Clock) -> None:
    scene = Scene(clock, limits=TIGHT)
    scene.say(*(f"line {n}" for n in range(1000)), "Traceback", "ValueError: no")
    assert scene.log.lines[1:] == ["line 0", "line 1", "line 2", "line 3"]
    clock.pass_by(10)
    left_out, *last = scene.log.lines[5:]
    assert left_out.startswith("left out: 996 lines (7.7 KiB) that container training of pod p said faster than its")
    assert left_out.endswith("kubectl -n ml logs p -c training")
    assert last == ["Traceback", "ValueError: no"]
    assert scene.log.locs[5:] == [f"p training {stamp(n)}" for n in (999, 1000, 1001)]
    assert clock.waiting == 0


def test_at_the_end_the_last_words_are_told_at_once_and_nothing_later(clock: Clock) -> None:
    scene = Scene(clock, limits=TIGHT)
    scene.say(*(f"line {n}" for n in range(1000)), "Traceback", "ValueError: no")
    asyncio.run(scene.teller.end())
    assert scene.log.lines[-2:] == ["Traceback", "ValueError: no"]
    told = len(scene.log.lines)
    clock.pass_by(100)
    assert len(scene.log.lines) == told


def test_progress_in_a_flood_does_not_say_that_what_is_kept_back_is_told(clock: Clock) -> None:
    scene = Scene(clock, limits=TIGHT)
    scene.say(*(f"line {n}" for n in range(100)), PROGRESS % 1)
    assert scene.log.lines[-1] == "progress 10% step 1/10"
    assert scene.log.locs[-1] is None
    assert scene.teller.position(("p", "training")) == at(3)


def test_what_earlier_task_logs_hold_is_heard_and_not_told_again(clock: Clock) -> None:
    scene = Scene(clock, told=at(2))
    scene.say("CUDA out of memory", "a", "b", "c")
    assert scene.log.lines[1:] == ["c"]
    assert scene.hearing.findings == {"p": "cuda-out-of-memory"}


def test_lines_of_one_moment_are_counted_whatever_stands_between_them(clock: Clock) -> None:
    scene = Scene(clock)
    lines = [stamped(1, text) for text in ("a", PROGRESS % 1, "b")]
    scene.teller.take(Batch(pod="p", container="training", lines=lines, now=5.0))
    assert scene.log.locs[1:3] == [f"p training {stamp(1)}", f"p training {stamp(1)}#3"]
    assert scene.teller.position(("p", "training")) == at(1, 3)


def test_a_line_without_a_stamp_is_told(clock: Clock) -> None:
    scene = Scene(clock)
    scene.teller.take(Batch(pod="p", container="training", lines=[" no stamp"], now=5.0))
    assert scene.log.lines[-1] == "no stamp"
    assert scene.log.locs[-1] is None


def test_records_that_say_whose_lines_follow_are_within_the_share_too(clock: Clock) -> None:
    limits = Limits(lines_per_second=10, burst_lines=20, tail_lines=2)
    scene = Scene(clock, limits=limits)
    for n in range(400):
        scene.say("x", pod=f"p{n % 8}")
        clock.pass_by(0.05)
    assert len(scene.log.lines) > 200
    # One log's last lines, and what is said before them, may be above it at a time.
    assert len(scene.log.lines) <= 20 + 10 * 20 + 4


def test_bytes_of_those_records_are_within_the_share_too(clock: Clock) -> None:
    scene = Scene(clock, limits=Limits(bytes_per_second=1000, burst_bytes=2000, tail_lines=2))
    for n in range(400):
        scene.say("x", pod=f"{'long-name-' * 10}{n % 8}")
        clock.pass_by(0.05)
    written = sum(len(line) for line in scene.log.lines)
    assert 10_000 < written <= 2000 + 1000 * 20 + 1000


def held_back(clock: Clock, *, pods: int, limits: Limits) -> Scene:
    scene = Scene(clock, limits=limits)
    for pod in range(pods):
        scene.say(*(f"line {n}" for n in range(300)), pod=f"p{pod}")
    return scene


def test_at_the_end_others_have_their_turn_while_the_last_words_of_many_pods_are_told(clock: Clock) -> None:
    scene = held_back(clock, pods=64, limits=Limits(burst_lines=1, lines_per_second=1))
    told = [len(scene.log.lines)]

    async def end_beside_others() -> None:
        ending = asyncio.create_task(scene.teller.end())
        while not ending.done():
            await asyncio.sleep(0)
            told.append(len(scene.log.lines))
        await ending

    asyncio.run(end_beside_others())
    assert sum(1 for line in scene.log.lines if line == "line 299") == 64
    assert max(after - before for before, after in pairwise(told)) <= 250


def test_when_a_flood_pauses_the_last_lines_of_many_pods_are_told_bit_by_bit(clock: Clock) -> None:
    limits = Limits(burst_lines=20_000, lines_per_second=20_000, bytes_per_second=1e9, burst_bytes=10**9)
    scene = held_back(clock, pods=128, limits=limits)
    told, turns = len(scene.log.lines), []
    clock.each_turn = lambda: turns.append(len(scene.log.lines))
    clock.pass_by(5)
    assert clock.waiting == 0
    assert sum(1 for line in scene.log.lines if line == "line 299") == 128
    turns.insert(0, told)
    assert turns[-1] - told > 5000
    assert max(after - before for before, after in pairwise(turns)) <= 250


def test_what_is_said_while_last_words_are_told_is_told_in_its_order(clock: Clock) -> None:
    scene = held_back(clock, pods=8, limits=Limits(burst_lines=1, lines_per_second=1))

    async def end_and_say() -> None:
        ending = asyncio.create_task(scene.teller.end())
        await asyncio.sleep(0)
        assert "line 299" in scene.log.lines
        for pod in range(8):
            scene.say("line 300", pod=f"p{pod}")
        await ending

    asyncio.run(end_and_say())
    for pod in range(8):
        own = [loc for loc in scene.log.locs if loc is not None and loc.startswith(f"p{pod} ")]
        assert own == sorted(own)
        assert scene.teller.position((f"p{pod}", "training")) == at(8 * 300 + pod)
