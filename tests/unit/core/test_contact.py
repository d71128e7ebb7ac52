"""Troubles are waited out, up to a limit."""

from __future__ import annotations

import pytest
from tests.unit.core.kubernetes_documents import container, failed_pod, job, moment, pod, running

from gpu_training.core.contact import Silence, listen, out_of_contact
from gpu_training.core.decide import OutcomeKind
from gpu_training.core.observation import observe
from gpu_training.core.verdict import Action, Category, Owner
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

LIMIT = 600.0
SINCE_100 = Silence(since=100.0, trouble="refused")

NEWS = [
    # silence before, trouble now, clock, silence after, seconds left
    (None, None, 100.0, None, None),
    (None, "refused", 100.0, SINCE_100, 600.0),
    (SINCE_100, "refused", 250.0, SINCE_100, 450.0),
    (SINCE_100, "reset", 250.0, Silence(since=100.0, trouble="reset"), 450.0),
    (SINCE_100, None, 250.0, None, None),
    (SINCE_100, "refused", 699.5, SINCE_100, 0.5),
    (SINCE_100, "refused", 700.0, SINCE_100, 0.0),
    (SINCE_100, "refused", 9000.0, SINCE_100, 0.0),
]


@pytest.mark.parametrize(("before", "trouble", "clock", "after", "left"), NEWS)
def test_a_silence_lasts_from_its_first_trouble_to_the_next_contact(
    before: Silence | None, trouble: str | None, clock: float, after: Silence | None, left: float | None
) -> None:
    silence = listen(before, trouble, clock)

    assert silence == after
    assert (silence and silence.left(LIMIT, clock)) == left


def test_the_verdict_says_how_long_why_and_what_to_check() -> None:
    outcome = out_of_contact(observe(job(), []), SINCE_100, rules=built_in_rules(), clock=701.0, now=moment(100))

    assert outcome.kind is OutcomeKind.LOST
    assert outcome.verdict is not None
    assert outcome.verdict.category is Category.UNREACHABLE
    assert (outcome.verdict.owner, outcome.verdict.action) == (Owner.INFRASTRUCTURE, Action.RETRY)
    assert "601 seconds" in outcome.verdict.summary
    assert "refused" in outcome.verdict.summary
    for word in ("connection", "cluster", "watch", "deadline"):
        assert word in outcome.verdict.remedy


def test_an_attempt_that_still_ran_is_not_told_as_one_that_succeeded() -> None:
    seen = observe(job(), [failed_pod(1), pod("Running", container(running()), name="second", created=20)])
    outcome = out_of_contact(seen, SINCE_100, rules=built_in_rules(), clock=701.0, now=moment(100))
    verdicts = [attempt.verdict.category for attempt in outcome.attempts if attempt.verdict is not None]

    assert sorted(verdicts) == sorted([Category.UNREACHABLE, Category.APPLICATION_ERROR])
    assert [attempt.estimated for attempt in outcome.attempts].count(True) == 1
