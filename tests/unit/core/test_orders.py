"""What ends a Job that Kubernetes would let go on, and the reason that then stands on the Job."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.unit.core.damage import anything, damaged
from tests.unit.core.kubernetes_documents import Document, complete, condition, failed, job
from tests.unit.core.ledgers import attempt, failed_attempts, ledger_job, verdict, verdicts

from gpu_training.core.budget import Allowance
from gpu_training.core.decide import Outcome, OutcomeKind, Policy, decide
from gpu_training.core.naming import ANNOTATION_ENDED_BECAUSE
from gpu_training.core.observation import JobObservation, observe, observe_job
from gpu_training.core.orders import Order, admissions_of, due, ended_because, wanted_backoff_limit
from gpu_training.core.plain_data import plain_verdict
from gpu_training.core.verdict import Action, Category, Verdict
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

LIVES = job()
NOW = 50.0


def marked(said: str, *conditions: Document) -> Document:
    return job(*conditions, metadata={"annotations": {ANNOTATION_ENDED_BECAUSE: said}})


def ordered(
    record: Any, document: Document = LIVES, *, logs_are_read: bool = True, attempts_left: int = 1
) -> Verdict | None:
    order = due(record, observe_job(document), NOW, logs_are_read=logs_are_read, attempts_left=attempts_left)
    return order.verdict if order is not None else None


# What ends a Job.


@pytest.mark.parametrize("action", [Action.FAIL, Action.RETRY_ELSEWHERE, Action.RETRY_LARGER])
def test_what_needs_another_job_or_none_ends_this_one_at_once(action: Action) -> None:
    record = ledger_job(1, attempts=failed_attempts(1, action))
    assert ordered(record, logs_are_read=False) == verdict(action)


def test_the_newest_of_such_failures_is_the_reason() -> None:
    attempts = (
        attempt("a", action=Action.RETRY_LARGER),
        attempt("b", action=Action.FAIL),
        attempt("c", action=Action.WAIT),
    )
    assert ordered(ledger_job(1, attempts=attempts)) == verdict(Action.FAIL)


@pytest.mark.parametrize(("failures", "ends"), [(0, False), (2, False), (3, True)])
def test_a_job_ends_when_it_has_failed_once_more_than_it_may_make_good(failures: int, ends: bool) -> None:
    said = ordered(ledger_job(1, attempts=failed_attempts(failures)))
    assert said == (verdict(Action.RETRY) if ends else None)


@pytest.mark.parametrize(("attempts_left", "ends"), [(1, False), (0, True)])
def test_a_replacement_that_began_while_nobody_watched_goes_on_if_the_lineage_has_an_attempt_left(
    attempts_left: int, ends: bool
) -> None:
    replacement = replace(attempt("now"), started_at=NOW - 5, ended_at=None, verdict=None)
    record = ledger_job(1, attempts=(*failed_attempts(3), replacement))
    assert (ordered(record, attempts_left=attempts_left) is not None) is ends


def test_a_failure_too_many_waits_for_the_end_of_its_log_which_may_explain_it() -> None:
    record = ledger_job(1, attempts=failed_attempts(3))
    assert ordered(record, logs_are_read=False) is None
    assert ordered(record, logs_are_read=True) is not None


@pytest.mark.case("C027")
def test_disruptions_are_no_failures() -> None:
    assert ordered(ledger_job(1, attempts=failed_attempts(2, Action.WAIT))) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attempts": failed_attempts(3, Action.WAIT)}, "3 disruptions, of which 2 were left"),
        (
            {
                "unseen_gpu_seconds": 70.0,
                "allowance": Allowance(failures=2, disruptions=2, gpu_seconds=60.0, wall_seconds=1800.0),
            },
            "70 of the 60 GPU-seconds that were left",
        ),
        (
            {"allowance": Allowance(failures=2, disruptions=2, gpu_seconds=None, wall_seconds=40.0)},
            "50 of the 40 seconds of wall time that were left",
        ),
    ],
)
def test_a_job_that_has_overdrawn_ends_and_whether_another_may_follow_is_the_ledgers_to_say(
    changes: dict[str, Any], words: str
) -> None:
    """Final here, no spot fallback would ever run, and no budget could be raised."""
    said = ordered(ledger_job(1, **changes), logs_are_read=False)
    assert said is not None
    assert (said.category, said.action) == (Category.BUDGET_SPENT, Action.RETRY)
    assert words in said.summary


@pytest.mark.parametrize(
    "document",
    [
        complete(),
        failed(),
        job(condition("FailureTarget")),
        job(condition("SuccessCriteriaMet")),
        job(metadata={"deletionTimestamp": "2026-11-30T19:24:20Z"}),
        marked(json.dumps(plain_verdict(verdict()))),
    ],
    ids=["complete", "failed", "failing", "succeeding", "deleting", "ordered already"],
)
def test_what_ends_anyway_needs_no_order(document: Document) -> None:
    assert ordered(ledger_job(1, attempts=failed_attempts(1, Action.FAIL)), document) is None


def test_a_forged_reason_holds_no_order_back() -> None:
    assert ordered(ledger_job(1, attempts=failed_attempts(1, Action.FAIL)), marked("because")) == verdict(Action.FAIL)


# The reason on the Job.


def applied(patch: dict[str, Any]) -> JobObservation:
    return observe_job(job(metadata=patch["metadata"], spec=patch["spec"]))


@given(verdicts)
def test_the_reason_is_read_back_as_it_was_written(said: Verdict) -> None:
    patch = Order(verdict=said).patch()
    assert patch["spec"] == {"activeDeadlineSeconds": 1, "backoffLimit": 0}
    assert ended_because(applied(json.loads(json.dumps(patch)))) == said


def test_a_reason_of_any_length_fits_an_annotation() -> None:
    patch = Order(verdict=verdict(summary="\N{BOMB}" * 100_000)).patch()
    text = patch["metadata"]["annotations"][ANNOTATION_ENDED_BECAUSE]
    assert len(text.encode()) < 32 * 1024
    read = ended_because(applied(patch))
    assert read is not None
    assert read.summary == "\N{BOMB}" * 1000


FORGED = ["", "null", "because", "5", "[]", "{}", '{"category":"killed"}', '"killed"', "[" * 100_000, "9" * 5000]


@pytest.mark.parametrize("text", FORGED)
def test_a_forged_reason_reads_as_none(text: str) -> None:
    assert ended_because(observe_job(marked(text))) is None
    outcome = decide(observe(marked(text, condition("Failed", reason="DeadlineExceeded")), []), POLICY, NOW)
    assert isinstance(outcome, Outcome)
    assert outcome.kind is OutcomeKind.TIMED_OUT


POLICY = Policy(rules=built_in_rules())


@given(damaged(plain_verdict(verdict())) | anything)
def test_whatever_stands_there_is_a_verdict_or_none(value: Any) -> None:
    read = ended_because(observe_job(marked(json.dumps(value))))
    assert read is None or plain_verdict(read) == {name: value[name] for name in plain_verdict(read) or {}}


def test_a_job_that_we_had_ended_has_failed_for_our_reason_and_not_by_its_deadline() -> None:
    patch = Order(verdict=verdict(Action.RETRY_LARGER)).patch()
    ended = job(condition("Failed", reason="DeadlineExceeded"), metadata=patch["metadata"])
    outcome = decide(observe(ended, []), POLICY, NOW)
    assert isinstance(outcome, Outcome)
    assert (outcome.kind, outcome.verdict) == (OutcomeKind.FAILED, verdict(Action.RETRY_LARGER))


# The Job's own limit.


@pytest.mark.parametrize(("failures", "admissions", "limit"), [(0, 0, 1), (2, 0, 3), (2, 3, 6)])
def test_the_backoff_limit_has_room_for_what_a_node_turns_away(failures: int, admissions: int, limit: int) -> None:
    given = Allowance(failures=failures, disruptions=0, gpu_seconds=None, wall_seconds=10.0)
    assert wanted_backoff_limit(given, admissions=admissions) == limit


def test_pods_that_a_node_turned_away_are_told_from_other_disruptions() -> None:
    away = {"action": Action.WAIT, "category": Category.ADMISSION_FAILED}
    attempts = (attempt("a", **away), attempt("b", action=Action.WAIT), attempt("c", **away), attempt("d", end=None))
    assert admissions_of(ledger_job(1, attempts=attempts)) == 2
