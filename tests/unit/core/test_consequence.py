"""The table of consequences (docs/design.md), a row a test: what a task try that asks for a training gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.ledgers import BUDGET, ended_job, failed_attempts, ledger_job, ledger_of, trained, verdict

from gpu_training.core.budget import Budget
from gpu_training.core.consequence import Join, Refuse, Request, Reuse, Start, delivered, follow
from gpu_training.core.ledger import CLAIMS_KEPT, Claim, Ending, Ledger, LedgerJob
from gpu_training.core.naming import TaskTry
from gpu_training.core.verdict import Action, Category

pytestmark = pytest.mark.core

NOW = 1000.0
MINE = TaskTry(dag_id="train__m", run_id="r", task_id="train", map_index=-1, try_number=1)
OTHER = replace(MINE, run_id="other")


def ask(task: TaskTry = MINE, *, max_tries: int = 2, **changes: Any) -> Request:
    fields = {"by_person": False, "retrain": False, "budget": BUDGET, **changes}
    return Request(task=task, max_tries=max_tries, **fields)


def claimed(
    ledger: Ledger, number: int, *, task: TaskTry = MINE, generation: int = 1, delivered: bool = False
) -> Ledger:
    claim = Claim(task=task.task, max_tries=2, generation=generation, number=number, at=500.0, delivered=delivered)
    return ledger.with_claim(claim)


def announced(ledger: Ledger, start: Start) -> Ledger:
    """Give the ledger as whoever makes the Job writes it: its record stands there before the Job does."""
    job = ledger_job(start.number, uid=None, generation=start.generation, period=ledger.period)
    return replace(ledger.with_job(job), next_number=max(ledger.next_number, start.number + 1))


def made(ledger: Ledger, number: int) -> Ledger:
    job = ledger.job(number)
    assert job is not None
    return ledger.with_job(replace(job, uid=f"uid-{number}"))


def ended(ledger: Ledger, number: int, action: Action | None) -> Ledger:
    """Give the ledger in which a Job has ended; with a success, that is what its generation came to."""
    job = ledger.job(number)
    assert job is not None
    after = ledger.with_job(
        replace(
            job,
            uid=f"uid-{number}",
            ended_at=NOW,
            ending=Ending.FAILED if action else Ending.SUCCEEDED,
            verdict=verdict(action) if action else None,
            attempts=failed_attempts(1, action) if action else (),
        )
    )
    return after if action else after.with_trained(trained(number, job.generation))


FRESH = ledger_of()
LIVES = claimed(ledger_of(ledger_job(1)), 1)
FAILED = claimed(ledger_of(ended_job(1, attempts=failed_attempts(1))), 1)
SPENT = claimed(ledger_of(ended_job(1, attempts=failed_attempts(3))), 1)
HOPELESS = claimed(ledger_of(ended_job(1, action=Action.FAIL, attempts=failed_attempts(1, Action.FAIL))), 1)
TRAINED = claimed(ledger_of(ended_job(1, action=None), trained=(trained(1),)), 1, delivered=True)


def test_the_first_who_asks_starts_the_first_job_and_is_written_down() -> None:
    after, consequence = follow(FRESH, ask(), NOW)
    assert consequence == Start(number=1, generation=1)
    assert after.claim(MINE.task) == Claim(task=MINE.task, max_tries=2, generation=1, number=1, at=NOW)
    assert (after.period, after.renewals, after.jobs) == (1, (), ())


# A worker, triggerer or scheduler dies; SIGTERM by the platform; a trigger is reassigned.


@pytest.mark.case("C048")
def test_after_a_death_the_next_try_adopts_the_job_that_lives() -> None:
    after, consequence = follow(LIVES, ask(replace(MINE, try_number=2)), NOW)
    assert consequence == Join(job=ledger_job(1))
    assert (after.jobs, after.period, after.generation) == (LIVES.jobs, 1, 1)


def test_a_job_that_was_announced_and_never_made_is_made_by_whoever_comes_next() -> None:
    planned = announced(*follow(FRESH, ask(), NOW))  # type: ignore[arg-type]
    for who in (MINE, OTHER):
        after, consequence = follow(planned, ask(who), NOW)
        assert consequence == Start(number=1, generation=1, planned=planned.jobs[0])
        assert after.next_number == 2


# An automatic retry.


@pytest.mark.parametrize(
    "action", [Action.RETRY, Action.RETRY_ELSEWHERE, Action.RETRY_LARGER, Action.WAIT], ids=lambda action: action.value
)
def test_a_retry_after_an_ended_job_is_the_next_job_of_the_same_generation_and_budget(action: Action) -> None:
    ledger = claimed(ledger_of(ended_job(1, action=action, attempts=failed_attempts(1, action))), 1)
    after, consequence = follow(ledger, ask(), NOW)
    assert consequence == Start(number=2, generation=1)
    assert (after.period, after.renewals) == (1, ())


def test_a_retry_whose_budget_is_spent_is_refused_and_told_of_what() -> None:
    after, consequence = follow(SPENT, ask(), NOW)
    assert isinstance(consequence, Refuse)
    assert consequence.verdict.category is Category.BUDGET_SPENT
    assert consequence.verdict.action is Action.FAIL
    assert "3 of 3 attempts; in all 3 failures, 0 disruptions, 30 GPU-seconds, 100 s" in consequence.verdict.summary
    assert after == SPENT


def test_what_no_repetition_cures_is_not_repeated() -> None:
    after, consequence = follow(HOPELESS, ask(), NOW)
    assert consequence == Refuse(verdict=verdict(Action.FAIL))
    assert after == HOPELESS


def test_a_budget_that_is_raised_pays_for_the_next_job() -> None:
    """Also where the trigger had the last Job ended because the one before was spent."""
    spent = replace(SPENT.jobs[0], verdict=verdict(Action.RETRY, Category.BUDGET_SPENT), ending=Ending.FAILED)
    raised = replace(BUDGET, attempts=4)
    assert follow(SPENT.with_job(spent), ask(budget=raised), NOW)[1] == Start(number=2, generation=1)


@pytest.mark.parametrize(("fallback", "started"), [(True, True), (False, False)])
def test_disruptions_beyond_the_budget_leave_the_spot_fallback(fallback: bool, started: bool) -> None:
    ledger = claimed(ledger_of(ended_job(1, action=Action.WAIT, attempts=failed_attempts(3, Action.WAIT))), 1)
    consequence = follow(ledger, ask(has_fallback=fallback), NOW)[1]
    assert isinstance(consequence, Start if started else Refuse)


def test_the_spot_fallback_is_there_once() -> None:
    disrupted = ended_job(1, action=Action.WAIT, attempts=failed_attempts(3, Action.WAIT))
    again = ended_job(2, action=Action.WAIT, on_demand=True, attempts=failed_attempts(1, Action.WAIT))
    assert isinstance(follow(ledger_of(disrupted, again), ask(has_fallback=True), NOW)[1], Refuse)


def test_a_success_is_given_to_the_retry_of_who_waited_for_it() -> None:
    """The task died between the Job's end and its own: nothing is trained twice, and it is not called reused."""
    after, consequence = follow(TRAINED, ask(replace(MINE, try_number=2)), NOW)
    assert consequence == Reuse(trained=trained(1), own=True)
    assert after == TRAINED


def test_the_retry_of_one_generation_gets_that_one_though_a_later_one_is_trained() -> None:
    later = replace(
        TRAINED.with_job(ended_job(2, action=None, generation=2)).with_trained(trained(2, 2)),
        generation=2,
        next_number=3,
    )
    assert follow(later, ask(), NOW)[1] == Reuse(trained=trained(1), own=True)


# A clear while it runs.


@pytest.mark.case("C047")
def test_a_clear_while_it_runs_joins_as_a_retry_does_and_renews_nothing() -> None:
    after, consequence = follow(LIVES, ask(max_tries=5), NOW)
    assert consequence == Join(job=ledger_job(1))
    assert (after.period, after.renewals) == (1, ())
    failed = ended(after, 1, Action.RETRY)
    assert follow(failed, ask(max_tries=5), NOW)[1] == Start(number=2, generation=1)
    assert follow(failed, ask(max_tries=5), NOW)[0].period == 1


def test_a_clear_after_the_last_waiter_left_and_the_job_was_deleted_goes_on_in_the_same_generation() -> None:
    deleted = claimed(ledger_of(ended_job(1, action=None, ending=Ending.DELETED)), 1)
    assert follow(deleted, ask(max_tries=5), NOW)[1] == Start(number=2, generation=1)


# A clear after a failure; a person's new trigger.


@pytest.mark.parametrize("ledger", [FAILED, SPENT, HOPELESS], ids=["failed", "spent", "hopeless"])
def test_a_clear_after_a_failure_is_the_same_generation_with_a_fresh_budget_and_recorded(ledger: Ledger) -> None:
    after, consequence = follow(ledger, ask(max_tries=5), NOW)
    assert consequence == Start(number=2, generation=1)
    assert after.period == 2
    [renewal] = after.renewals
    assert (renewal.at, renewal.task, renewal.generation, renewal.period) == (NOW, MINE.task, 1, 2)
    assert renewal.why == "cleared"
    assert after.current_jobs() == ()


@pytest.mark.parametrize("ledger", [FAILED, SPENT, HOPELESS], ids=["failed", "spent", "hopeless"])
def test_a_persons_new_trigger_is_the_same_generation_with_a_fresh_budget_and_recorded(ledger: Ledger) -> None:
    after, consequence = follow(ledger, ask(OTHER, by_person=True), NOW)
    assert consequence == Start(number=2, generation=1)
    assert (after.period, [renewal.why for renewal in after.renewals]) == (2, ["a new run by hand"])


def test_only_the_first_try_of_a_persons_run_renews_the_budget() -> None:
    after, start = follow(FAILED, ask(OTHER, by_person=True), NOW)
    assert isinstance(start, Start)
    failed = ended(announced(after, start), 2, Action.RETRY)
    again, consequence = follow(failed, ask(OTHER, by_person=True), NOW)
    assert consequence == Start(number=3, generation=1)
    assert (again.period, len(again.renewals)) == (2, 1)


def test_only_the_clear_itself_renews_the_budget_not_the_retries_after_it() -> None:
    after, start = follow(SPENT, ask(max_tries=5), NOW)
    assert isinstance(start, Start)
    failed = ended(announced(after, start), 2, Action.RETRY)
    again, consequence = follow(failed, ask(max_tries=5), NOW)
    assert consequence == Start(number=3, generation=1)
    assert again.period == 2


@pytest.mark.parametrize(
    ("ledger", "category"), [(SPENT, Category.BUDGET_SPENT), (HOPELESS, Category.BAD_DATA)], ids=["spent", "hopeless"]
)
def test_a_scheduled_run_renews_no_budget(ledger: Ledger, category: Category) -> None:
    after, consequence = follow(ledger, ask(OTHER), NOW)
    assert isinstance(consequence, Refuse)
    assert consequence.verdict.category is category
    assert (after.period, after.renewals) == (1, ())


def test_a_scheduled_run_goes_on_with_what_is_left() -> None:
    after, consequence = follow(FAILED, ask(OTHER), NOW)
    assert (consequence, after.period) == (Start(number=2, generation=1), 1)


@pytest.mark.parametrize("ledger", [SPENT, HOPELESS], ids=["spent", "hopeless"])
def test_a_run_that_was_refused_at_once_can_be_cleared_for_a_fresh_budget(ledger: Ledger) -> None:
    refused, _ = follow(ledger, ask(OTHER), NOW)
    assert isinstance(follow(refused, ask(OTHER), NOW)[1], Refuse)
    after, consequence = follow(refused, ask(OTHER, max_tries=5), NOW)
    assert consequence == Start(number=2, generation=1)
    assert after.period == 2


def test_a_clear_of_what_was_refused_reuses_what_another_run_has_trained_since() -> None:
    refused, _ = follow(SPENT, ask(OTHER), NOW)
    renewed, start = follow(refused, ask(max_tries=5), NOW)
    assert isinstance(start, Start)
    done = ended(announced(renewed, start), 2, None)
    assert follow(done, ask(OTHER, max_tries=5), NOW)[1] == Reuse(trained=trained(2), own=False)


# A clear after success; if_trained: retrain.


def test_a_clear_after_success_starts_the_next_generation_with_a_budget_of_its_own() -> None:
    after, consequence = follow(TRAINED, ask(max_tries=5), NOW)
    assert consequence == Start(number=2, generation=2)
    assert (after.generation, after.period) == (2, 2)
    assert [renewal.why for renewal in after.renewals] == ["generation 2: cleared after its success"]


def test_the_retries_of_a_clear_after_success_keep_its_generation() -> None:
    after, start = follow(TRAINED, ask(max_tries=5), NOW)
    assert isinstance(start, Start)
    lives = made(announced(after, start), 2)
    joined = lives.job(2)
    assert joined is not None
    assert follow(lives, ask(max_tries=5), NOW)[1] == Join(job=joined)
    failed = ended(lives, 2, Action.RETRY)
    again, consequence = follow(failed, ask(max_tries=5), NOW)
    assert consequence == Start(number=3, generation=2)
    assert (again.generation, again.period) == (2, 2)
    done = ended(announced(again, Start(number=3, generation=2)), 3, None)
    assert follow(done, ask(max_tries=5), NOW)[1] == Reuse(trained=trained(3, 2), own=True)


def test_a_clear_of_a_task_that_was_green_by_anothers_training_starts_the_next_generation() -> None:
    reused, _ = follow(TRAINED, ask(OTHER), NOW)
    assert follow(reused, ask(OTHER, max_tries=5), NOW)[1] == Start(number=2, generation=2)


def test_a_clear_of_a_task_that_had_failed_reuses_what_another_has_trained_since() -> None:
    done = FAILED.with_job(ended_job(2, action=None)).with_trained(trained(2))
    assert follow(done, ask(max_tries=5), NOW)[1] == Reuse(trained=trained(2), own=False)


def test_who_cleared_before_it_got_the_success_gets_it_and_may_clear_again() -> None:
    """The worker that was to hand it on died: who cleared the task saw it red."""
    unheard = claimed(TRAINED, 1)
    after, consequence = follow(unheard, ask(max_tries=5), NOW)
    assert consequence == Reuse(trained=trained(1), own=True)
    assert follow(after, ask(max_tries=5), NOW)[1] == consequence
    assert follow(after, ask(max_tries=8), NOW)[1] == Start(number=2, generation=2)


def test_a_task_that_has_its_result_is_written_down_and_another_is_not() -> None:
    after = delivered(claimed(TRAINED, 1), MINE)
    assert after == TRAINED
    assert delivered(after, OTHER) == after


def test_a_clear_is_one_whatever_its_retries_were_lowered_to() -> None:
    for max_tries in (0, 1, 3, 9):
        assert follow(TRAINED, ask(max_tries=max_tries), NOW)[1] == Start(number=2, generation=2)


def test_who_was_green_by_what_another_had_trained_before_its_retry_trains_again_when_cleared() -> None:
    done = claimed(ledger_of(ended_job(1), ended_job(2, action=None), trained=(trained(2),)), 1)
    after, consequence = follow(done, ask(), NOW)
    assert consequence == Reuse(trained=trained(2), own=False)
    assert follow(after, ask(max_tries=5), NOW)[1] == Start(number=3, generation=2)


def test_who_clears_many_tasks_of_a_run_renews_the_budget_once_and_may_do_so_again() -> None:
    tasks = [replace(MINE, map_index=n) for n in range(3)]
    ledger = SPENT
    for task in tasks:
        ledger = claimed(ledger, 1, task=task)
    for n, task in enumerate(tasks):
        ledger, _ = follow(ledger, ask(task, max_tries=5), NOW + n)
        ledger = made(announced(ledger, Start(number=2, generation=1)), 2)
    assert ledger.period == 2
    ledger = ended(ledger, 2, Action.RETRY)
    for n, task in enumerate(tasks):
        ledger, _ = follow(ledger, ask(task, max_tries=9), NOW + 100 + n)
    assert ledger.period == 3


def test_a_run_by_hand_with_many_tasks_renews_the_budget_once() -> None:
    ledger = SPENT
    for n in range(3):
        task = replace(OTHER, map_index=n)
        ledger, _ = follow(ledger, ask(task, by_person=True), NOW + n)
        ledger = ended(made(announced(ledger, Start(number=2 + n, generation=1)), 2 + n), 2 + n, Action.RETRY)
    assert ledger.period == 2


def test_a_clear_of_two_runs_after_success_is_one_training() -> None:
    both = claimed(TRAINED, 1, task=OTHER, delivered=True)
    after, start = follow(both, ask(max_tries=5), NOW)
    assert isinstance(start, Start)
    lives = made(announced(after, start), 2)
    assert isinstance(follow(lives, ask(OTHER, max_tries=5), NOW)[1], Join)


def test_who_asks_to_retrain_starts_the_next_generation_once_and_its_retries_keep_it() -> None:
    after, start = follow(TRAINED, ask(OTHER, retrain=True), NOW)
    assert start == Start(number=2, generation=2)
    assert [renewal.why for renewal in after.renewals] == ["generation 2: asked for"]
    failed = ended(announced(after, Start(number=2, generation=2)), 2, Action.RETRY)
    assert follow(failed, ask(OTHER, retrain=True), NOW)[1] == Start(number=3, generation=2)
    done = ended(announced(failed, Start(number=3, generation=2)), 3, None)
    assert follow(done, ask(OTHER, retrain=True), NOW)[1] == Reuse(trained=trained(3, 2), own=False)


def test_who_asks_to_retrain_what_is_not_trained_yet_waits_with_the_others() -> None:
    assert isinstance(follow(LIVES, ask(OTHER, retrain=True), NOW)[1], Join)
    assert follow(FAILED, ask(OTHER, retrain=True), NOW)[1] == Start(number=2, generation=1)


# It is trained already.


@pytest.mark.parametrize("by_person", [True, False])
def test_what_is_trained_already_is_given_at_once_and_no_job_is_made(by_person: bool) -> None:
    after, consequence = follow(TRAINED, ask(OTHER, by_person=by_person), NOW)
    assert consequence == Reuse(trained=trained(1), own=False)
    assert (after.jobs, after.generation, after.period, after.next_number) == (TRAINED.jobs, 1, 1, 2)
    again = follow(after, ask(OTHER, by_person=by_person), NOW + 1)
    assert again == (after, Reuse(trained=trained(1), own=False))


def test_a_model_that_does_not_verify_any_more_is_trained_again_in_the_next_generation() -> None:
    for request in (ask(), ask(OTHER), ask(OTHER, by_person=True)):
        after, consequence = follow(TRAINED, request, NOW, unusable={1})
        assert consequence == Start(number=2, generation=2)
        assert [renewal.why for renewal in after.renewals] == ["generation 2: its model is gone"]
        assert follow(after, request, NOW, unusable={1})[1] == consequence


# Joining.


@pytest.mark.case("C097")
@pytest.mark.parametrize("by_person", [True, False])
def test_another_run_joins_the_job_that_lives(by_person: bool) -> None:
    after, consequence = follow(LIVES, ask(OTHER, by_person=by_person), NOW)
    assert consequence == Join(job=ledger_job(1))
    claim = after.claim(OTHER.task)
    assert claim is not None
    assert (claim.generation, claim.number) == (1, 1)
    assert after.period == 1


def test_a_mapped_task_is_told_from_its_siblings() -> None:
    sibling = replace(MINE, map_index=3)
    after, consequence = follow(TRAINED, ask(sibling, max_tries=99), NOW)
    assert consequence == Reuse(trained=trained(1), own=False)
    assert len(after.claims) == 2


# Whatever happens.

actions = st.sampled_from([None, Action.RETRY, Action.WAIT, Action.FAIL, Action.RETRY_LARGER])
requests = st.builds(
    ask,
    st.sampled_from([MINE, OTHER, replace(MINE, map_index=0)]),
    max_tries=st.integers(0, 3),
    by_person=st.booleans(),
    retrain=st.booleans(),
    has_fallback=st.booleans(),
    budget=st.builds(
        Budget,
        attempts=st.integers(1, 3),
        disruptions=st.integers(0, 2),
        gpu_seconds=st.none() | st.integers(1, 60),
        wall_seconds=st.integers(10, 4000),
    ),
)
steps = st.tuples(requests, actions, st.booleans(), st.sets(st.integers(1, 3), max_size=1))


def stepped(ledger: Ledger, request: Request, action: Action | None, ends: bool, unusable: set[int]) -> Ledger:
    """Give the ledger after a request, and after the Job that it waits for has ended, if it does."""
    after, consequence = follow(ledger, request, NOW, unusable=unusable)
    if isinstance(consequence, Start):
        after = announced(after, consequence)
        after = made(after, consequence.number) if not ends else ended(after, consequence.number, action)
    elif isinstance(consequence, Join) and ends:
        after = ended(after, consequence.job.number, action)
    return after


@st.composite
def histories(draw: st.DrawFn) -> Ledger:
    ledger = FRESH
    for request, action, ends, unusable in draw(st.lists(steps, max_size=6)):
        ledger = stepped(ledger, request, action, ends, unusable)
    return ledger


@given(histories(), requests, st.sets(st.integers(1, 3), max_size=1), st.booleans())
def test_asking_again_after_a_write_whose_answer_was_lost_gives_the_same(
    ledger: Ledger, request: Request, unusable: set[int], told: bool
) -> None:
    after, first = follow(ledger, request, NOW, unusable=unusable)
    if told and isinstance(first, Start):
        after = announced(after, first)
    again, second = follow(after, request, NOW + 60, unusable=unusable)
    if isinstance(first, Start) and isinstance(second, Start):
        assert (first.number, first.generation) == (second.number, second.generation)
    else:
        assert (type(first), getattr(first, "job", None)) == (type(second), getattr(second, "job", None))
    assert (again.generation, again.period, again.next_number, len(again.renewals)) == (
        after.generation,
        after.period,
        after.next_number,
        len(after.renewals),
    )


@given(histories(), requests)
def test_nothing_is_trained_beside_a_job_that_lives(ledger: Ledger, request: Request) -> None:
    assert sum(job.ended_at is None for job in ledger.jobs) <= 1
    lives = ledger.open_job
    consequence = follow(ledger, request, NOW)[1]
    if isinstance(consequence, Start):
        assert lives is None or (lives.uid is None and consequence.planned == lives)
    if isinstance(consequence, Join):
        assert consequence.job == lives


@given(histories(), requests)
def test_counters_only_grow_and_what_is_written_stays(ledger: Ledger, request: Request) -> None:
    after = follow(ledger, request, NOW)[0]
    assert after.jobs == ledger.jobs
    assert after.trained == ledger.trained
    assert after.renewals[: len(ledger.renewals)] == ledger.renewals
    assert after.next_number == ledger.next_number
    assert ledger.generation <= after.generation <= ledger.generation + 1
    assert ledger.period <= after.period <= ledger.period + 1


@given(histories(), requests)
def test_only_a_person_or_a_new_generation_renews_a_budget(ledger: Ledger, request: Request) -> None:
    after = follow(ledger, request, NOW)[0]
    claim = ledger.claim(request.task.task)
    by_hand = request.by_person or (claim is not None and request.max_tries != claim.max_tries)
    if after.period > ledger.period:
        assert by_hand or after.generation > ledger.generation


def test_a_claim_that_is_too_old_to_be_kept_is_a_first_request() -> None:
    ledger = TRAINED
    for n in range(CLAIMS_KEPT):
        ledger = follow(ledger, ask(replace(OTHER, run_id=f"r-{n}")), NOW)[0]
    assert len(ledger.claims) == CLAIMS_KEPT
    assert ledger.claim(MINE.task) is None
    assert follow(ledger, ask(max_tries=9), NOW)[1] == Reuse(trained=trained(1), own=False)


def test_a_record_that_lives_is_found_among_many() -> None:
    jobs: tuple[LedgerJob, ...] = (ended_job(1), ended_job(2), ledger_job(3))
    assert follow(ledger_of(*jobs), ask(), NOW)[1] == Join(job=ledger_job(3))
