"""The API server's clock: what this machine's own clock does is of no concern."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from gpu_training.cluster.server_clock import ServerClock, clock_of

pytestmark = pytest.mark.unit


def test_it_is_this_machines_before_the_first_answer() -> None:
    before = time.time()
    assert before <= ServerClock().now() <= time.time()


@pytest.mark.parametrize("ahead", [-86400.0, -10.0, 10.0, 86400.0])
def test_an_answer_sets_it_within_a_second(ahead: float) -> None:
    clock = ServerClock()
    clock.hear(formatdate(time.time() + ahead, usegmt=True))
    assert clock.now() == pytest.approx(time.time() + ahead, abs=1.0)


def test_a_jump_of_this_machines_clock_does_not_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, now = ServerClock(), time.time
    clock.hear(formatdate(now(), usegmt=True))
    monkeypatch.setattr(time, "time", lambda: now() + 3600)
    assert clock.now() == pytest.approx(now(), abs=1.0)


def test_answers_within_the_same_second_do_not_turn_it_back() -> None:
    clock = ServerClock()
    told = []
    for _ in range(50):
        clock.hear(formatdate(time.time(), usegmt=True))
        told.append(clock.now())
    assert told == sorted(told)


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Dec 2026 07:00:00 GMT", "\0"])
def test_what_is_no_date_is_passed_over(date: str) -> None:
    clock = ServerClock()
    clock.hear(date)
    assert clock.now() == pytest.approx(time.time(), abs=1.0)


def test_whoever_reaches_the_server_the_same_way_shares_its_clock() -> None:
    assert clock_of("one") is clock_of("one")
    assert clock_of("one") is not clock_of("another")
