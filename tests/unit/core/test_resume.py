"""A retry that went on where the one before had stopped is told from one that began anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.ledgers import attempt, verdict

from gpu_training.core.attempts import Attempt
from gpu_training.core.resume import (
    Beginning,
    awaits_proof,
    not_resumed,
    proof_of,
    repeated_steps,
    sentence,
    total_repeated_steps,
)
from gpu_training.core.verdict import Action, Category, Owner

pytestmark = pytest.mark.core


def did(
    uid: str,
    start: float,
    *,
    first: int | None = None,
    reported: int | None = None,
    last: int | None = None,
    checkpoint: int | None = None,
    end: float | None = None,
) -> Attempt:
    """Give an attempt with the steps that it is known to have done."""
    return replace(
        attempt(uid, start=start, end=start + 5 if end is None else end),
        first_step=first,
        first_reported_step=reported,
        last_step=last,
        checkpoint_step=checkpoint,
    )


def runs(uid: str, start: float, **steps: int | None) -> Attempt:
    return replace(did(uid, start, **steps), ended_at=None)


FIRST = did("a", 10, first=1, last=74, checkpoint=60)


@pytest.mark.parametrize(
    ("second", "beginning", "first_step", "repeated"),
    [
        (runs("b", 20, first=61), Beginning.RESUMED, 61, 14),
        (runs("b", 20, first=61, reported=60, last=60, checkpoint=60), Beginning.RESUMED, 61, 14),
        (runs("b", 20, first=75), Beginning.RESUMED, 75, 0),
        (runs("b", 20, first=100), Beginning.RESUMED, 100, 0),
        # It counts from 0.
        (runs("b", 20, first=60), Beginning.RESUMED, 60, 15),
        (runs("b", 20, first=41), Beginning.BEHIND, 41, 34),
        (runs("b", 20, first=1), Beginning.ANEW, 1, 74),
        (runs("b", 20, first=0), Beginning.ANEW, 0, 75),
        # It has not said where it begins: its reports alone tell.
        (runs("b", 20, reported=61), Beginning.RESUMED, 61, None),
        (runs("b", 20, reported=100), Beginning.RESUMED, 100, None),
        (runs("b", 20, reported=59), Beginning.BEHIND, 59, None),
        (runs("b", 20, reported=10), Beginning.BEHIND, 10, None),
        (runs("b", 20, reported=1), Beginning.ANEW, 1, None),
        # It says itself that it has found a checkpoint.
        (runs("b", 20, first=1, checkpoint=60), Beginning.BEHIND, 1, 74),
        (runs("b", 20, reported=1, checkpoint=40), Beginning.BEHIND, 1, None),
    ],
)
def test_the_first_step_is_held_against_the_newest_checkpoint(
    second: Attempt, beginning: Beginning, first_step: int, repeated: int | None
) -> None:
    proof = proof_of(second, [FIRST, second])
    assert proof is not None
    assert (proof.beginning, proof.first_step, proof.repeated) == (beginning, first_step, repeated)
    assert (proof.checkpoint_step, proof.left_by) == (60, FIRST)


@pytest.mark.parametrize(
    ("others", "second"),
    [
        ([], runs("b", 20, first=1)),
        ([did("a", 10, first=1, last=74)], runs("b", 20, first=1)),
        ([did("a", 10, first=1, last=74, checkpoint=0)], runs("b", 20, first=1)),
        ([FIRST], runs("b", 20)),
        # Beside it, or a zombie on a node that was cut off: not before it.
        ([replace(FIRST, ended_at=None)], runs("b", 20, first=1)),
        ([replace(FIRST, ended_at=26.0)], runs("b", 20, first=1)),
        ([replace(FIRST, started_at=20.0)], runs("b", 20, first=1)),
        ([replace(FIRST, started_at=30.0)], runs("b", 20, first=1)),
        ([replace(FIRST, started_at=None)], runs("b", 20, first=1)),
        ([FIRST], replace(runs("b", 20, first=1), started_at=None)),
    ],
    ids=[
        "the first",
        "no checkpoint",
        "of step 0",
        "silent",
        "beside it",
        "ended later",
        "at once",
        "later",
        "without a node",
        "not on a node",
    ],
)
def test_without_anything_to_go_on_from_there_is_nothing_to_prove(others: list[Attempt], second: Attempt) -> None:
    assert proof_of(second, [*others, second]) is None
    assert not_resumed(second, [*others, second]) is None


def test_the_newest_checkpoint_counts_whoever_left_it() -> None:
    second = did("b", 20, first=61, last=80, checkpoint=80)
    third = did("c", 30, first=61, last=70, checkpoint=60)
    fourth = runs("d", 40, first=81)
    attempts = [FIRST, second, third, fourth]
    proof = proof_of(fourth, attempts)
    assert proof is not None
    assert (proof.beginning, proof.left_by, proof.repeated) == (Beginning.RESUMED, second, 0)
    assert [repeated_steps(each, attempts) for each in attempts] == [0, 14, 10, 0]
    assert total_repeated_steps(attempts) == 24


def test_what_was_cut_off_early_has_repeated_no_more_than_it_did() -> None:
    second = did("b", 20, first=1, last=10)
    assert repeated_steps(second, [FIRST, second]) == 10
    assert repeated_steps(replace(second, last_step=0), [FIRST, second]) == 0
    assert repeated_steps(replace(second, last_step=None), [FIRST, second]) == 0


def test_steps_are_done_again_without_any_checkpoint_too() -> None:
    first, second = did("a", 10, first=1, last=30), did("b", 20, first=1, last=50)
    assert proof_of(second, [first, second]) is None
    assert repeated_steps(second, [first, second]) == 30


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            runs("b", 20, first=61),
            "pod pod-b goes on at step 61, after the checkpoint of step 60 that pod pod-a left: 14 steps are",
        ),
        (
            runs("b", 20, first=75),
            "pod pod-b goes on at step 75, after the checkpoint of step 60 that pod pod-a left: no step is done again",
        ),
        (
            runs("b", 20, first=41),
            "pod pod-b goes on at step 41, before the checkpoint of step 60 that pod pod-a left: 34 steps are",
        ),
        (
            runs("b", 20, first=1),
            "pod pod-b begins anew, at step 1, though the checkpoint of step 60 that pod pod-a left is known: 74 steps",
        ),
        (
            runs("b", 20, reported=61),
            "pod pod-b first reports step 61, after the checkpoint of step 60 that pod pod-a left: it does not say",
        ),
        (
            runs("b", 20, reported=9),
            "pod pod-b first reports step 9, before the checkpoint of step 60 that pod pod-a left: it does not say",
        ),
    ],
)
def test_the_evidence_is_a_sentence(second: Attempt, said: str) -> None:
    proof = proof_of(second, [FIRST, second])
    assert proof is not None
    assert sentence(proof).startswith(said)


def test_who_begins_anew_is_stopped_as_the_programs_fault_and_for_good() -> None:
    second = runs("b", 20, first=1)
    said = not_resumed(second, [FIRST, second])
    assert said is not None
    assert (said.category, said.owner, said.action) == (Category.NOT_RESUMED, Owner.APPLICATION, Action.FAIL)
    assert "begins anew" in said.summary
    assert "if_not_resumed" in said.remedy


def test_who_began_anew_and_failed_at_once_is_stopped_before_the_next_attempt() -> None:
    second = replace(did("b", 20, first=1), verdict=verdict(Action.RETRY))
    assert not_resumed(second, [FIRST, second]) is not None


@pytest.mark.parametrize(
    "second",
    [runs("b", 20, first=61), runs("b", 20, first=41), did("b", 20, first=1), runs("b", 20), runs("b", 20, reported=9)],
    ids=["goes on", "from an older one", "has succeeded", "silent", "reports seldom"],
)
def test_nobody_else_is_stopped(second: Attempt) -> None:
    assert not_resumed(second, [FIRST, second]) is None


@st.composite
def histories(draw: st.DrawFn) -> list[Attempt]:
    """Attempts, one after the other: each goes on from the newest checkpoint, does some steps, and leaves another."""
    attempts, checkpoint = [], 0
    for n in range(draw(st.integers(1, 8))):
        done = draw(st.integers(0, 30))
        last = checkpoint + done
        left = draw(st.integers(checkpoint, last))
        attempts.append(did(str(n), 10.0 * n, first=checkpoint + 1, last=last, checkpoint=left or None))
        checkpoint = left
    return attempts


@given(histories())
def test_who_always_goes_on_repeats_what_lies_behind_each_checkpoint_and_nothing_else(attempts: list[Attempt]) -> None:
    done: set[int] = set()
    again = 0
    for each in attempts:
        steps = set(range(each.first_step or 1, (each.last_step or 0) + 1))
        again += len(steps & done)
        done |= steps
    assert total_repeated_steps(attempts) == again
    assert all(
        proof.beginning is Beginning.RESUMED for each in attempts if (proof := proof_of(each, attempts)) is not None
    )


_COUNT = st.none() | st.integers(0, 10**6)


@given(
    st.lists(
        st.builds(
            did,
            st.text("abc", min_size=1, max_size=2),
            st.floats(0, 100),
            first=_COUNT,
            reported=_COUNT,
            last=_COUNT,
            checkpoint=_COUNT,
        ),
        max_size=6,
    )
)
def test_whatever_programs_say_of_their_steps_there_is_an_answer(attempts: list[Attempt]) -> None:
    assert total_repeated_steps(attempts) >= 0
    for each in attempts:
        proof = proof_of(each, attempts)
        if proof is not None:
            assert proof.repeated is None or proof.repeated >= 0
            assert sentence(proof)


@pytest.mark.parametrize(
    ("second", "awaits"),
    [
        (runs("b", 20), True),
        (runs("b", 20, first=61), False),
        (runs("b", 20, reported=61), False),
        (did("b", 20), False),
        (replace(runs("b", 20), started_at=None), False),
    ],
    ids=["silent", "has said it", "has reported", "has ended", "not on a node"],
)
def test_only_a_silent_attempt_that_could_go_on_is_waited_for(second: Attempt, awaits: bool) -> None:
    assert awaits_proof(second, [FIRST, second]) is awaits
    assert not awaits_proof(second, [second])
