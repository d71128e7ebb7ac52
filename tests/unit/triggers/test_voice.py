"""What a waiting training says: what is new, once."""

from __future__ import annotations

import pytest
from tests.unit.core.ledgers import verdict

from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.phase import Phase, Wait
from gpu_training.triggers import voice as voice_module
from gpu_training.triggers.voice import Voice

pytestmark = pytest.mark.unit


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, message: str, *args: object) -> None:
        self.lines.append(message % args)

    debug = warning = info


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(voice_module, "monotonic", clock)
    return clock


def waits(phase: Phase, detail: str) -> Wait:
    return Wait(phase=phase, detail=detail)


def test_a_phase_is_said_once(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for _ in range(3):
        assert voice.phase(waits(Phase.QUEUED, "no GPU")) is None
    voice.phase(waits(Phase.RUNNING, "pod p"))

    assert log.lines == ["queued: no GPU", "running: pod p"]


@pytest.mark.case("C035")
def test_a_new_detail_is_said_after_a_while_and_never_forgotten(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    voice.phase(waits(Phase.QUEUED, "1 GPU short"))
    again = voice.phase(waits(Phase.QUEUED, "2 GPUs short"))
    assert again is not None
    assert log.lines == ["queued: 1 GPU short"]
    clock.now += again

    assert voice.phase(waits(Phase.QUEUED, "2 GPUs short")) is None
    assert log.lines == ["queued: 1 GPU short", "queued: 2 GPUs short"]


def report(cause: Cause, summary: str, cure: Cure = Cure.WAITING) -> Report:
    return Report(cause=cause, cure=cure, summary=summary, remedy="Wait.")


def test_why_it_waits_is_said_when_the_cause_changes_and_other_words_once_a_minute(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    queued = waits(Phase.QUEUED, "0/1 nodes")
    for words in ("8 taken.", "9 taken.", "9 taken."):
        voice.waiting(queued, report(Cause.GPUS_TAKEN, words))
        clock.now += 20
    clock.now += 60
    voice.waiting(queued, report(Cause.GPUS_TAKEN, "7 taken."))
    voice.waiting(queued, report(Cause.NODES_CORDONED, "One is cordoned."))
    voice.waiting(waits(Phase.STARTING, "pod p"), report(Cause.IMAGE_PULLING, "Pulling."))

    assert log.lines == [
        "queued (gpus_taken): 8 taken. Wait.",
        "queued (gpus_taken): 7 taken. Wait.",
        "queued (nodes_cordoned): One is cordoned. Wait.",
        "starting (image_pulling): Pulling. Wait.",
    ]


def test_a_cause_that_comes_again_after_the_training_ran_is_said_again(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for wait, why in (
        (waits(Phase.QUEUED, "q"), report(Cause.GPUS_TAKEN, "Taken.")),
        (waits(Phase.RUNNING, "pod p"), None),
        (waits(Phase.QUEUED, "q"), report(Cause.GPUS_TAKEN, "Taken.")),
    ):
        voice.waiting(wait, why)

    assert log.lines == ["queued (gpus_taken): Taken. Wait.", "running: pod p", "queued (gpus_taken): Taken. Wait."]


def test_causes_that_alternate_are_not_said_at_every_turn(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for _ in range(100):
        for cause in (Cause.GPUS_TAKEN, Cause.NODES_CORDONED):
            voice.waiting(waits(Phase.QUEUED, "q"), report(cause, f"{cause}."))
            clock.now += 0.5

    assert len(log.lines) == 4


def test_trouble_is_said_when_it_begins_and_when_it_is_over(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for trouble in (None, "503", "503", "reset", None, None):
        voice.trouble(trouble)

    assert log.lines == ["503; the training goes on, and so does the waiting", "the API server answers again"]


def test_the_end_is_said_with_its_reason() -> None:
    log = Log()
    Voice(log).end(Outcome(kind=OutcomeKind.SUCCEEDED, attempts=()))
    Voice(log).end(Outcome(kind=OutcomeKind.LOST, attempts=(), verdict=verdict(summary="It is gone.")))

    assert log.lines == ["succeeded", "lost: It is gone."]
