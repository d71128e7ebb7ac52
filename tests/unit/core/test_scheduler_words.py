"""What the scheduler says keeps its order, its names and its numbers."""

from __future__ import annotations

import pytest

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.scheduler_words import Preemption, SchedulerWords, parse_scheduler
from gpu_training.core.surroundings import Taint

pytestmark = pytest.mark.core


def parsed(message: str) -> SchedulerWords:
    words = parse_scheduler(message)
    assert words is not None
    return words


@pytest.mark.parametrize("message", ["", "  ", "\n"])
def test_nothing_said_is_nothing(message: str) -> None:
    assert parse_scheduler(message) is None


@pytest.mark.parametrize(
    ("said", "taint"),
    [
        ("{dedicated: ingest}", Taint(key="dedicated", value="ingest")),
        ("{node-role.kubernetes.io/control-plane: }", Taint(key="node-role.kubernetes.io/control-plane")),
        ("{a: b, 2 c}", Taint(key="a", value="b, 2 c")),
    ],
)
def test_a_taint_is_named_as_the_message_names_it(said: str, taint: Taint) -> None:
    words = parsed(f"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {said}.")
    assert [(reason.count, reason.taint) for reason in words.reasons] == [(1, None), (2, taint)]
    assert taint.key in words.reasons[1].reason


def test_a_taint_that_is_not_named_has_no_name() -> None:
    assert parsed("0/1 nodes are available: 1 node(s) had untolerated taint(s).").reasons[0].taint is None


@pytest.mark.parametrize(
    ("half", "gpus", "memory", "cure"),
    [
        ("1 Preemption is not helpful for scheduling.", Cause.TOO_FEW_GPUS, Cause.TOO_LITTLE_CPU_OR_MEMORY, Cure.NEVER),
        ("1 No preemption victims found for incoming pod.", Cause.GPUS_TAKEN, Cause.CPU_OR_MEMORY_TAKEN, Cure.WAITING),
        (
            "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
            Cause.GPUS_TAKEN,
            Cause.CPU_OR_MEMORY_TAKEN,
            Cure.WAITING,
        ),
    ],
)
def test_the_preemption_half_tells_taken_from_too_few(half: str, gpus: Cause, memory: Cause, cure: Cure) -> None:
    words = parsed(
        f"0/2 nodes are available: 1 Insufficient memory, 1 Insufficient nvidia.com/gpu. "
        f"preemption: 0/2 nodes are available: {half}"
    )
    assert [(reason.resource, reason.cause, reason.cure) for reason in words.reasons] == [
        ("memory", memory, cure),
        ("nvidia.com/gpu", gpus, cure),
    ]


def test_without_a_preemption_half_it_may_be_that_others_hold_it() -> None:
    words = parsed("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert words.preemption is Preemption.NONE
    assert words.reasons[0].cause is Cause.GPUS_TAKEN


def test_the_preemption_half_is_no_reason() -> None:
    words = parsed(
        "0/4 nodes are available: 4 Insufficient memory. preemption: 0/4 nodes are available: 2 Insufficient memory, "
        "2 Preemption is not helpful for scheduling."
    )
    assert [(reason.count, reason.said) for reason in words.reasons] == [(4, "Insufficient memory")]
    assert words.preemption is Preemption.NO_VICTIMS


def test_a_message_that_was_cut_off_is_read_as_far_as_it_goes() -> None:
    words = parsed("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {dedic")
    assert [reason.cause for reason in words.reasons] == [Cause.CPU_OR_MEMORY_TAKEN, None]
    assert words.reasons[1].said == "node(s) had untolerated taint {dedic"


def test_words_that_are_not_known_are_kept_as_they_are() -> None:
    message = "0/3 nodes are available: 2 node(s) are asleep (until 7.30), 1 Insufficient cpu."
    words = parsed(message)
    assert words.whole == message
    assert [(reason.count, reason.cause, reason.reason) for reason in words.reasons] == [
        (2, None, "node(s) are asleep (until 7.30)"),
        (1, Cause.CPU_OR_MEMORY_TAKEN, "too little cpu free"),
    ]
