"""The books of one Job, against an API server that keeps objects: what is written, what is not, and what is ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import JOB_UID, Document, at, condition, job, moment, pod
from tests.unit.core.ledgers import ALLOWANCE, BUDGET, attempt, failed_attempts, trained, verdict
from tests.unit.triggers.one_job import JOB, LEDGER, LINEAGE, RECORD, REFERENCE, Log, keep, kept

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.core.choices import IfNotResumed
from gpu_training.core.clocks import Clocks
from gpu_training.core.decide import Outcome, OutcomeKind, Policy
from gpu_training.core.ledger import Ending, attempts_before
from gpu_training.core.naming import ANNOTATION_ENDED_BECAUSE, LEDGER_KEY
from gpu_training.core.observation import Observation, observe
from gpu_training.core.plain_data import plain_verdict
from gpu_training.core.steps import Steps
from gpu_training.core.terms import Terms
from gpu_training.core.verdict import Action, Category
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers.bookkeeper import Bookkeeper, Settled

pytestmark = pytest.mark.unit


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    yield api
    api.stop()


def with_books(
    api: ObjectApi,
    work: Callable[[Bookkeeper], Awaitable[Any]],
    *,
    result_required: bool = True,
    clocks: Clocks | None = None,
    if_not_resumed: IfNotResumed = IfNotResumed.WARN,
    log: Log | None = None,
) -> Any:
    """Give what some work with the books of the Job gives."""
    terms = Terms(
        budget=BUDGET,
        has_fallback=False,
        memory_cap="8Gi",
        clocks=clocks or Clocks(),
        if_not_resumed=if_not_resumed,
    )

    async def run() -> Any:
        async with Cluster(api.address) as cluster:
            return await work(
                Bookkeeper(
                    cluster,
                    LedgerStore(cluster, LINEAGE),
                    REFERENCE,
                    1,
                    policy=Policy(result_required=result_required, rules=built_in_rules()),
                    terms=terms,
                    mlflow_run_id="r",
                    log=log or Log(),
                )
            )

    return asyncio.run(run())


def settled(api: ObjectApi, observation: Observation, outcome: Outcome, *, result_required: bool = True) -> Settled:
    async def settle(books: Bookkeeper) -> Settled:
        return await books.settle(observation, outcome, moment(100))

    result = with_books(api, settle, result_required=result_required)
    assert isinstance(result, Settled)
    return result


def lost(category: Category = Category.DELETED) -> Outcome:
    return Outcome(kind=OutcomeKind.LOST, attempts=(), verdict=verdict(Action.RETRY, category))


def test_a_job_that_is_out_of_reach_stays_open_so_that_a_retry_adopts_it(api: ObjectApi) -> None:
    keep(api, RECORD)
    end = settled(api, observe(job(), []), lost(Category.UNREACHABLE))

    assert end.outcome.verdict is not None
    assert end.outcome.verdict.category is Category.UNREACHABLE
    assert end.spent is None
    assert kept(api).open_job == RECORD


def test_a_job_that_is_gone_is_closed(api: ObjectApi) -> None:
    keep(api, RECORD)
    settled(api, observe(job(), [], gone=True), lost())

    assert kept(api).open_job is None


@pytest.mark.parametrize("kind", [OutcomeKind.LOST, OutcomeKind.FAILED])
def test_a_success_that_another_waiter_saw_is_one_for_who_came_too_late_to_see_it(
    api: ObjectApi, kind: OutcomeKind
) -> None:
    success = replace(trained(1), job_uid=JOB_UID)
    keep(api, replace(RECORD, ended_at=moment(50), ending=Ending.SUCCEEDED), trained=(success,))
    end = settled(api, observe(job(), [], gone=True), replace(lost(), kind=kind))

    assert end.outcome.kind is OutcomeKind.SUCCEEDED
    assert end.outcome.verdict is None
    assert end.outcome.result == success.result
    assert end.spent is None


@pytest.mark.parametrize(
    ("changes", "result_required", "kind"),
    [
        ({"job_uid": "another"}, True, OutcomeKind.LOST),
        ({"result": None}, True, OutcomeKind.LOST),
        ({"result": None}, False, OutcomeKind.SUCCEEDED),
    ],
)
def test_only_what_this_very_job_came_to_is_its_success(
    api: ObjectApi, changes: dict[str, Any], result_required: bool, kind: OutcomeKind
) -> None:
    success = replace(trained(1), **{"job_uid": JOB_UID, **changes})
    keep(api, replace(RECORD, ended_at=moment(50), ending=Ending.LOST), trained=(success,))

    end = settled(api, observe(job(), [], gone=True), lost(), result_required=result_required)
    assert end.outcome.kind is kind


def watch(api: ObjectApi, document: dict[str, Any], *seconds: int) -> float | None:
    async def look(books: Bookkeeper) -> float | None:
        again = None
        for second in seconds:
            again = await books.watch(observe(document, []), moment(second))
        return again

    again = with_books(api, look)
    assert again is None or isinstance(again, float)
    return again


def test_a_job_that_is_over_while_it_is_suspended_is_deleted(api: ObjectApi) -> None:
    spent = replace(RECORD, allowance=replace(ALLOWANCE, gpu_seconds=10.0), unseen_gpu_seconds=20.0)
    keep(api, spent)
    suspended = job(condition("Suspended"), spec={"suspend": True}, status={"startTime": None})
    watch(api, api.put(JOB, suspended), 100)
    told = api.objects[JOB]
    assert "gpu-training.io/ended-because" in told["metadata"]["annotations"]
    watch(api, told, 101)

    assert JOB not in api.objects


def test_a_suspended_job_with_something_left_is_left_alone(api: ObjectApi) -> None:
    keep(api, RECORD)
    watch(api, api.put(JOB, job(condition("Suspended"), spec={"suspend": True})), 100, 101)

    assert "gpu-training.io/ended-because" not in api.objects[JOB]["metadata"]["annotations"]


def test_a_job_that_was_told_to_end_is_told_once_and_looked_at_without_haste(api: ObjectApi) -> None:
    keep(api, replace(RECORD, allowance=replace(ALLOWANCE, wall_seconds=10.0)))
    again = watch(api, api.put(JOB, job()), 100)
    assert again is not None
    assert again >= 1
    watch(api, api.objects[JOB], 101, 102)

    assert api.count("PATCH") == 1


def test_who_watches_next_does_not_charge_what_somebody_has_watched(api: ObjectApi) -> None:
    keep(api, replace(RECORD, attempts=failed_attempts(1)))
    waiting = api.put(JOB, job())
    again = watch(api, waiting, 1, 10, 20, 31, 61, 91, 121)
    assert again is not None
    assert again <= 30
    writes = api.count("PUT")
    watch(api, waiting, 123)

    assert kept(api).jobs[0].unseen_gpu_seconds <= 3
    assert writes <= 5


# The queue.


def see(api: ObjectApi, *pods: Document, second: int, queue_seconds: int | None = 600, look_again: bool = False) -> int:
    """Have a new watcher look once, or twice, and give the Job's deadline then."""

    async def look(books: Bookkeeper) -> None:
        for _ in range(2 if look_again else 1):
            await books.watch(observe(api.objects[JOB], pods), moment(second))

    with_books(api, look, clocks=Clocks(queue_seconds=queue_seconds))
    return int(api.objects[JOB]["spec"]["activeDeadlineSeconds"])


def test_the_deadline_leaves_room_for_the_queue_until_there_is_a_node_and_for_the_next_wait_again(
    api: ObjectApi,
) -> None:
    keep(api, RECORD)
    api.put(JOB, job(spec={"activeDeadlineSeconds": 2400, "backoffLimit": 9}))
    queued = pod("Pending", name="a", scheduled=None)
    assert see(api, queued, second=100) == 2400
    assert see(api, pod("Running", name="a", scheduled=300), second=310) == 1800 + 300
    assert kept(api).jobs[0].waited == ((moment(0), moment(300)),)
    again = [pod("Failed", name="a", scheduled=300), pod("Pending", name="b", created=400, scheduled=None)]
    assert see(api, *again, second=410) > 1800 + 300 + 500


def test_two_watchers_with_different_patience_do_not_take_turns(api: ObjectApi) -> None:
    keep(api, RECORD)
    api.put(JOB, job(spec={"activeDeadlineSeconds": 2400, "backoffLimit": 9}))
    queued = pod("Pending", name="a", scheduled=None)
    deadlines = {see(api, queued, second=100 + n, queue_seconds=(60, 5000)[n % 2]) for n in range(6)}
    assert deadlines == {2400, 1800 + 5000}
    assert api.count("PATCH") == 1


def test_a_new_watcher_knows_from_the_ledger_who_ran(api: ObjectApi) -> None:
    """Its pod is gone: that the Job began long ago and has no pod is no wait since then."""
    ran = attempt("gone", start=moment(2), end=moment(590), action=Action.WAIT)
    keep(api, replace(RECORD, attempts=(ran,), waited=((moment(0), moment(2)),), seen_until=moment(590)))
    api.put(JOB, job(spec={"activeDeadlineSeconds": 1802, "backoffLimit": 9}))
    assert see(api, second=595, look_again=True) == 1802
    assert kept(api).jobs[0].waited == ((moment(0), moment(2)),)

    async def who_ran(books: Bookkeeper) -> list[str]:
        await books.watch(observe(api.objects[JOB], []), moment(596))
        return [each.uid for each in books.attempts]

    assert with_books(api, who_ran) == ["gone"]


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"suspend": True}, "status": {"startTime": None}},
        {"metadata": {"annotations": {ANNOTATION_ENDED_BECAUSE: json.dumps(plain_verdict(verdict()))}}},
        {"metadata": {"annotations": {}, "deletionTimestamp": at(50)}},
    ],
    ids=["suspended", "told to end", "being deleted"],
)
def test_the_deadline_of_a_job_that_has_none_running_or_is_over_is_left_alone(
    api: ObjectApi, changes: dict[str, Any]
) -> None:
    keep(api, RECORD)
    spec = {"activeDeadlineSeconds": 1800, "backoffLimit": 9, **changes.pop("spec", {})}
    api.put(JOB, job(spec=spec, **changes))
    assert see(api, second=100) == 1800
    assert api.count("PATCH") == 0


# Where each attempt began.

LEFT_A_CHECKPOINT = replace(
    attempt("gone", start=moment(2), end=moment(590), action=Action.WAIT),
    first_step=1,
    last_step=74,
    checkpoint_step=60,
)


def begin(
    api: ObjectApi,
    *firsts: int | None,
    if_not_resumed: IfNotResumed = IfNotResumed.WARN,
    phase: str = "Running",
) -> Log:
    """Have the second attempt of a Job say where it begins, look by look, and give what was said of that."""
    keep(api, replace(RECORD, attempts=(LEFT_A_CHECKPOINT,), seen_until=moment(600)))
    api.put(JOB, job(spec={"activeDeadlineSeconds": 1800, "backoffLimit": 9}))
    log = Log()

    async def look(books: Bookkeeper) -> None:
        for n, first in enumerate(firsts):
            seen = observe(api.objects[JOB], [pod(phase, name="b", created=601, scheduled=602)])
            steps = {} if first is None else {"b": Steps(first=first, last=first - 1)}
            await books.watch(replace(seen, steps=steps), moment(610 + n))

    with_books(api, look, if_not_resumed=if_not_resumed, log=log)
    return log


def test_an_attempt_that_goes_on_is_told_once_with_the_evidence(api: ObjectApi) -> None:
    log = begin(api, None, 61, 61, if_not_resumed=IfNotResumed.STOP)
    (told,) = [line for line in log.lines if "checkpoint of step 60" in line]
    assert told.startswith("attempt 2: pod b goes on at step 61")
    assert log.warnings == []
    assert api.count("PATCH") == 0
    assert [(each.first_step, each.last_step) for each in kept(api).jobs[0].attempts] == [(1, 74), (61, 60)]


def test_an_attempt_that_begins_anew_is_warned_of_and_goes_on(api: ObjectApi) -> None:
    log = begin(api, 1, 1)
    (told,) = log.warnings
    assert told.startswith("attempt 2: pod b begins anew, at step 1")
    assert api.count("PATCH") == 0


def test_an_attempt_that_begins_anew_is_stopped_where_the_team_wants_it_so(api: ObjectApi) -> None:
    begin(api, 1, 1, if_not_resumed=IfNotResumed.STOP)
    annotations, spec = api.objects[JOB]["metadata"]["annotations"], api.objects[JOB]["spec"]
    assert json.loads(annotations[ANNOTATION_ENDED_BECAUSE])["category"] == Category.NOT_RESUMED
    assert (spec["activeDeadlineSeconds"], spec["backoffLimit"]) == (1, 0)


def test_an_attempt_that_ended_before_anybody_looked_again_is_told_of_too_and_once(api: ObjectApi) -> None:
    log = begin(api, 1, phase="Failed")
    (told,) = log.warnings
    assert "begins anew" in told
    again = Log()

    async def look(books: Bookkeeper) -> None:
        await books.watch(observe(api.objects[JOB], []), moment(620))

    with_books(api, look, log=again)
    assert again.warnings == []


def test_the_ledger_counts_the_steps_that_were_done_again(api: ObjectApi) -> None:
    again = replace(attempt("b", start=moment(602), end=moment(700)), first_step=61, last_step=100)
    keep(api, replace(RECORD, attempts=(LEFT_A_CHECKPOINT, again)))
    (record,) = json.loads(api.objects[LEDGER]["data"][LEDGER_KEY])["jobs"]
    assert record["repeated_steps"] == 14


def test_where_a_silent_attempt_begins_is_looked_for_soon_and_ever_more_seldom(api: ObjectApi) -> None:
    """What the log tells comes without any news of Job or pods."""
    keep(api, replace(RECORD, attempts=(LEFT_A_CHECKPOINT,), seen_until=moment(600)))
    api.put(JOB, job(spec={"activeDeadlineSeconds": 1800, "backoffLimit": 9}))

    async def look(books: Bookkeeper) -> list[float | None]:
        seen = observe(api.objects[JOB], [pod("Running", name="b", created=601, scheduled=602)])
        silent = [await books.watch(seen, moment(second)) for second in (603, 652, 1002)]
        told = replace(seen, steps={"b": Steps(first=61, last=61)})
        return [*silent, await books.watch(told, moment(1003))]

    *silent, told = with_books(api, look)
    assert silent == [1.0, 5.0, 30.0]
    assert told is not None
    assert told > 30


def test_a_checkpoint_in_another_place_is_none_to_go_on_from(api: ObjectApi) -> None:
    """checkpoint_uri is no part of what makes two trainings the same work: somebody has moved it."""
    first = replace(RECORD, number=1, uid="uid-first", name="first", checkpoint_uri="s3://a", ended_at=moment(600))
    first = replace(first, ending=Ending.FAILED, attempts=(LEFT_A_CHECKPOINT,))
    second = replace(RECORD, number=2, checkpoint_uri="s3://b", created_at=moment(600), seen_until=moment(600))
    keep(api, first)
    ledger = kept(api).with_job(second)
    told = [attempts_before(ledger, each) for each in (second, replace(second, checkpoint_uri="s3://a"))]
    assert [each[0].checkpoint_step for each in told] == [None, 60]
