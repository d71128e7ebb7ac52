"""Why the queue does not let a training begin: the conditions of its Workload in the order of what they decide."""

from __future__ import annotations

import pytest

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.queue_words import QueueWords, parse_queue
from gpu_training.core.surroundings import QueueCondition, Workload

pytestmark = pytest.mark.core

SHORT = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, "
    "1 more needed"
)


def condition(kind: str, holds: bool = True, reason: str = "", message: str = "") -> QueueCondition:
    return QueueCondition(type=kind, holds=holds, reason=reason, message=message)


def workload(*conditions: QueueCondition, active: bool = True, position: int | None = None) -> Workload:
    return Workload(name="w", job_uid="u", queue="team", active=active, conditions=conditions, position=position)


def parsed(*conditions: QueueCondition, position: int | None = None) -> QueueWords:
    words = parse_queue(workload(*conditions, position=position))
    assert words is not None
    return words


WAITS = condition("QuotaReserved", False, "Pending", SHORT)
EVICTED = condition("Evicted", True, "Preempted", "Preempted to accommodate a workload (UID: 1) due to prioritization")


def test_what_was_not_looked_at_yet_says_nothing() -> None:
    assert parse_queue(workload()) is None
    assert parse_queue(workload(condition("QuotaReserved", False, "Pending", " "))) is None


def test_what_has_ended_says_nothing() -> None:
    assert parse_queue(workload(WAITS, condition("Finished"))) is None


@pytest.mark.parametrize(("position", "told"), [(0, "position 1"), (4, "position 5"), (None, "queue team: 1 more")])
def test_a_position_is_counted_from_one(position: int | None, told: str) -> None:
    assert told in parsed(WAITS, position=position).summary


def test_an_eviction_that_is_over_decides_nothing() -> None:
    over = condition("Evicted", False, "QuotaReserved", "Previously: Preempted to accommodate a workload")
    assert parsed(over, WAITS).cause is Cause.QUEUED


def test_what_was_admitted_again_is_admitted() -> None:
    words = parsed(condition("Evicted", False, "Reactivated"), condition("QuotaReserved"), condition("Admitted"))
    assert words.admitted
    assert words.cause is Cause.WAITING


def test_what_gave_way_tells_why_and_what_is_short_now() -> None:
    words = parsed(EVICTED, WAITS, position=1)
    assert (words.cause, words.cure) == (Cause.QUEUE_PREEMPTED, Cure.WAITING)
    assert "(prioritization)" in words.summary
    assert "position 2: 1 more nvidia.com/gpu needed in flavor a100" in words.summary


def test_what_is_not_active_is_out_of_the_queue_whatever_else_holds() -> None:
    words = parse_queue(workload(condition("Admitted"), WAITS, active=False))
    assert words is not None
    assert (words.cause, words.cure) == (Cause.QUEUE_DEACTIVATED, Cure.NEVER)


TOO_SMALL = "insufficient quota for nvidia.com/gpu in flavor {}, request > maximum capacity (8 > 4)"
FOR_NOW = "insufficient unused quota for {} in flavor {}, 1 more needed"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (TOO_SMALL.format("a"), Cause.QUEUE_TOO_SMALL),
        (f"{TOO_SMALL.format('a')}, {FOR_NOW.format('nvidia.com/gpu', 'b')}", Cause.QUEUED),
        (f"{TOO_SMALL.format('a')}, {FOR_NOW.format('cpu', 'a')}", Cause.QUEUE_TOO_SMALL),
        (
            f"{FOR_NOW.format('cpu', 'a')}; couldn't assign flavors to pod set w: {TOO_SMALL.format('a')}",
            Cause.QUEUE_TOO_SMALL,
        ),
        (
            f"{FOR_NOW.format('cpu', 'a')}; couldn't assign flavors to pod set w: {FOR_NOW.format('cpu', 'a')}",
            Cause.QUEUED,
        ),
    ],
)
def test_it_can_never_fit_only_if_a_pod_set_fits_into_no_flavor(said: str, cause: Cause) -> None:
    message = f"couldn't assign flavors to pod set main: {said}"
    assert parsed(condition("QuotaReserved", False, "Pending", message)).cause is cause


def test_words_that_are_not_known_are_waited_for_and_kept() -> None:
    words = parsed(condition("QuotaReserved", False, "Pending", "the moon is not full"))
    assert (words.cause, words.cure) == (Cause.QUEUED, Cure.WAITING)
    assert words.summary == "The training waits in queue team: the moon is not full."
