"""Why no pod is made: what is in the numbers of a quota, and what is kept of words that nobody knows."""

from __future__ import annotations

import pytest

from gpu_training.core.admission_words import Refusal, parse_refusal
from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core


def parsed(message: str) -> Refusal:
    refusal = parse_refusal(message)
    assert refusal is not None
    return refusal


def quota(asked: str, used: str, hard: str) -> str:
    return (
        f'Error creating: pods "train-8w5ww" is forbidden: exceeded quota: team, requested: {asked}, used: {used}, '
        f"limited: {hard}"
    )


@pytest.mark.parametrize("message", ["", "  ", "Error creating: "])
def test_nothing_said_is_nothing(message: str) -> None:
    assert parse_refusal(message) is None


@pytest.mark.parametrize(
    ("asked", "hard", "cure"),
    [
        ("2", "2", Cure.WAITING),
        ("3", "2", Cure.NEVER),
        ("1Gi", "1024Mi", Cure.WAITING),
        ("1025Mi", "1Gi", Cure.NEVER),
        ("1500m", "1", Cure.NEVER),
        ("many", "1", Cure.WAITING),
    ],
)
def test_more_than_a_quota_allows_at_all_is_never_given(asked: str, hard: str, cure: Cure) -> None:
    refusal = parsed(quota(f"requests.x={asked}", "requests.x=0", f"requests.x={hard}"))
    assert (refusal.cause, refusal.cure, refusal.quota) == (Cause.QUOTA_EXCEEDED, cure, "team")


def test_a_quotas_numbers_are_kept_by_resource() -> None:
    refusal = parsed(quota("requests.cpu=16,pods=1", "requests.cpu=60,pods=10", "requests.cpu=64,pods=10"))
    assert refusal.asked == {"requests.cpu": "16", "pods": "1"}
    assert refusal.used == {"requests.cpu": "60", "pods": "10"}
    assert refusal.hard == {"requests.cpu": "64", "pods": "10"}
    assert "requests.cpu: 16 asked, 60 of 64 used" in refusal.summary


def test_a_name_in_another_ones_words_decides_nothing() -> None:
    """A webhook's words may hold anything, also those of another plugin."""
    refusal = parsed(
        'admission webhook "w" denied the request: exceeded your patience, no PriorityClass with name x was found'
    )
    assert refusal.cause is Cause.ADMISSION_DENIED


def test_words_that_are_not_known_are_waited_for_and_kept() -> None:
    refusal = parsed('Error creating: pods "train-8w5ww" is forbidden: it is Sunday')
    assert (refusal.cause, refusal.cure) == (Cause.POD_REFUSED, Cure.WAITING)
    assert 'pods "train-8w5ww" is forbidden: it is Sunday' in refusal.summary
