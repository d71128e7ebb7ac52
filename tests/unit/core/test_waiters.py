"""Who waits on a Job: a task once, by its latest try; and what somebody else wrote there is known to be no list."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged
from tests.unit.core.specs import OWNER

from gpu_training.core.naming import TaskTry
from gpu_training.core.waiters import Waiters, joined, later_try, to_text, waiters_of

pytestmark = pytest.mark.core

OTHER = replace(OWNER, run_id="other")
MAPPED = replace(OWNER, map_index=3)

tries = st.builds(
    TaskTry,
    dag_id=st.sampled_from(["a", "ü\ud800\n"]),
    run_id=st.text(max_size=3),
    task_id=st.sampled_from(["t", "g.t"]),
    map_index=st.integers(-1, 2),
    try_number=st.integers(0, 4),
)
lists = st.lists(tries, max_size=4).map(tuple)


@given(lists)
def test_the_list_survives_its_annotation(waiters: Waiters) -> None:
    assert waiters_of(to_text(waiters)) == waiters


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "5",
        "{}",
        '"nobody"',
        "[1]",
        "[[]]",
        '[["d","r","t",-1]]',
        '[["d","r","t",-1,"1"]]',
        '[["d","r","t",true,1]]',
        '[["d","r","t",-1,1],null]',
        "[" * 100_000,
        "9" * 5000,
    ],
)
def test_of_a_forged_list_nobody_knows_who_waits(text: str) -> None:
    """That is no empty list: the Job is not deleted for it."""
    assert waiters_of(text) is None


def test_an_empty_list_is_one() -> None:
    assert waiters_of("[]") == ()


@given(damaged([OWNER.to_plain(), OTHER.to_plain()]) | anything)
def test_whatever_stands_there_is_a_list_or_none(value: Any) -> None:
    waiters = waiters_of(json.dumps(value))
    assert waiters is None or [waiter.to_plain() for waiter in waiters] == value


def test_a_later_try_takes_the_place_of_the_earlier_and_of_nobody_else() -> None:
    later = replace(OWNER, try_number=2)
    assert joined((OWNER, OTHER, MAPPED), later) == (OTHER, MAPPED, later)
    assert joined((), OWNER) == (OWNER,)


@given(lists, tries)
def test_who_joined_is_on_the_list_once_and_the_others_stay(waiters: Waiters, waiter: TaskTry) -> None:
    after = joined(waiters, waiter)
    assert [other for other in after if waiter.same_task(other)] == [waiter]
    assert [other for other in after if not waiter.same_task(other)] == [
        other for other in waiters if not waiter.same_task(other)
    ]
    assert joined(after, waiter) == after


def test_an_earlier_try_has_no_say_beside_a_later_one() -> None:
    later = replace(OWNER, try_number=2)
    assert later_try((OTHER, later), OWNER) == later
    assert later_try((OTHER, OWNER), later) is None
    assert later_try((OWNER,), OWNER) is None
    assert later_try((replace(later, map_index=0),), OWNER) is None
