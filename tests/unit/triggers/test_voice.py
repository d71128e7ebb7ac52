"""What a waiting training says: what is new, once."""

from __future__ import annotations

import pytest

from gpu_training.core.decide import Outcome, OutcomeKind
from gpu_training.core.log_matcher import LogMatcher
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.phase import Phase, Wait
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers import voice as voice_module
from gpu_training.triggers.voice import Voice

pytestmark = pytest.mark.unit

PROGRESS = 'GPU_TRAINING_PROGRESS {"v":1,"step":%d,"total":10}'


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


@pytest.mark.case("C069")
def test_progress_is_said_every_few_seconds_and_at_the_end(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for step in range(1, 11):
        voice.line("p", "training", PROGRESS % step, 0.0)
        clock.now += 0.7
    voice.end(Outcome(kind=OutcomeKind.SUCCEEDED, attempts=()))

    assert [line.split()[3] for line in log.lines if line.startswith("progress ")] == ["1/10", "4/10", "7/10", "10/10"]
    assert log.lines[-2:] == ["progress 100% step 10/10", "succeeded"]


def test_lines_say_whose_they_are_when_the_speaker_changes(clock: Clock) -> None:
    log = Log()
    voice = Voice(log)
    for pod, container, text in [("p", "download", "a"), ("p", "download", "b"), ("p", "training", "c")]:
        voice.line(pod, container, text, 0.0)

    assert log.lines == [
        "log of pod p, container download:",
        "a",
        "b",
        "log of pod p, container training:",
        "c",
    ]


def test_what_the_training_container_says_is_held_against_the_failure_rules(clock: Clock) -> None:
    log, matcher = Log(), LogMatcher(built_in_rules())
    voice = Voice(log, matcher)
    voice.line("p", "sidecar", "CUDA out of memory", 0.0)
    assert matcher.findings == {}

    voice.line("p", "training", "CUDA out of memory", 0.0)
    assert matcher.findings == {"p": "cuda-out-of-memory"}
    assert log.lines[-1] == "CUDA out of memory"

    voice.line("p", "training", PROGRESS % 1, 0.0)
    assert matcher.findings == {}


def test_only_the_training_container_tells_progress(clock: Clock) -> None:
    log = Log()
    Voice(log).line("p", "sidecar", PROGRESS % 1, 0.0)

    assert log.lines[-1] == PROGRESS % 1
