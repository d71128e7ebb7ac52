"""However much has happened in a lineage, its ledger fits into a ConfigMap, and decides as before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.core.ledgers import BUDGET, attempt, ended_job, ledger_job, ledger_of, verdict

from gpu_training.core.brevity import LONGEST
from gpu_training.core.exhaustion import exhausted
from gpu_training.core.ledger import Claim, Ledger, LedgerJob
from gpu_training.core.ledger_document import from_text, to_text
from gpu_training.core.spending import spending
from gpu_training.core.verdict import Action

pytestmark = pytest.mark.core

WORDY = verdict(Action.RETRY, summary="the program said " + "\u2014" * 400)
KEY = "x" * 200


def wordy(number: int, pods: int, *, period: int) -> LedgerJob:
    """Give the record of a Job whose pods all failed with many words."""
    one = replace(attempt(action=Action.RETRY), verdict=WORDY)
    attempts = tuple(replace(one, uid=f"{number}-{n}", pod="p" * 60) for n in range(pods))
    return ended_job(number, period=period, attempts=attempts)


def claims(count: int) -> tuple[Claim, ...]:
    return tuple(
        Claim(task=f"{KEY}\u2014{n}" * 3, max_tries=1, generation=1, number=1, at=float(n)) for n in range(count)
    )


LONG = [
    ledger_of(*(wordy(n, 60, period=n) for n in range(1, 41)), period=40),
    ledger_of(*(wordy(n, 60, period=1) for n in range(1, 11))),
    ledger_of(wordy(1, 600, period=1)),
    ledger_of(*(wordy(n, 20, period=1) for n in range(1, 60)), claims=claims(200)),
]


@pytest.mark.parametrize("ledger", LONG)
def test_a_long_ledger_fits_and_spends_the_budget_as_before(ledger: Ledger) -> None:
    document = to_text(ledger)
    again = from_text(document)

    assert document.isascii()
    assert len(document) <= LONGEST
    assert spending(again.current_jobs(), 100.0) == spending(ledger.current_jobs(), 100.0)
    assert exhausted(again, BUDGET, 100.0, has_fallback=False) == exhausted(ledger, BUDGET, 100.0, has_fallback=False)
    assert again.folded_gpu_seconds + sum(job.gpu_seconds for job in again.jobs) == pytest.approx(
        sum(job.gpu_seconds for job in ledger.jobs)
    )
    assert again.claims == ledger.claims[-len(again.claims) :]


def test_what_happened_last_keeps_its_words_longest() -> None:
    again = from_text(to_text(LONG[1]))

    assert {each.verdict for each in again.jobs[-1].attempts} == {WORDY}
    assert {each.verdict.summary for each in again.jobs[0].attempts if each.verdict} == {WORDY.summary[:60]}


def test_an_attempt_that_runs_keeps_its_words() -> None:
    runs = replace(attempt("runs", end=None), verdict=WORDY)
    again = from_text(to_text(ledger_of(wordy(1, 600, period=1), ledger_job(2, attempts=(runs,)))))

    assert again.jobs[-1].attempts == (runs,)


def test_a_ledger_that_fits_loses_nothing() -> None:
    ledger = ledger_of(wordy(1, 60, period=1))
    assert from_text(to_text(ledger)) == ledger
