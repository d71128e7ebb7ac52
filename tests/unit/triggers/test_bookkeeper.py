"""The books of one Job, against an API server that keeps objects: what is written, what is not, and what is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import JOB_NAME, JOB_UID, NAMESPACE, condition, job, moment
from tests.unit.core.ledgers import ALLOWANCE, BUDGET, failed_attempts, ledger_job, ledger_of, trained, verdict

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import jobs_path
from gpu_training.cluster.ledger_store import LEDGER_KEY, LedgerStore, Lineage
from gpu_training.core.decide import Outcome, OutcomeKind, Policy
from gpu_training.core.events import JobReference
from gpu_training.core.ledger import Ending, Ledger, LedgerJob
from gpu_training.core.ledger_document import from_text, to_text
from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_LEDGER, LABEL_LINEAGE, LABEL_MODEL, ledger_name
from gpu_training.core.observation import Observation, observe
from gpu_training.core.terms import Terms
from gpu_training.core.verdict import Action, Category
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers.bookkeeper import Bookkeeper, Settled

pytestmark = pytest.mark.unit

KEY = "0123456789abcdef"
LINEAGE = Lineage(namespace=NAMESPACE, model="m", deployment="airflow", fingerprint="f", key=KEY)
LEDGER = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{ledger_name('m', KEY)}"
JOB = jobs_path(NAMESPACE, JOB_NAME)
REFERENCE = JobReference(namespace=NAMESPACE, name=JOB_NAME, uid=JOB_UID)
RECORD = ledger_job(1, name=JOB_NAME, uid=JOB_UID, created_at=moment(0), seen_until=moment(0))


class Log:
    def info(self, *_: object) -> None:
        pass

    debug = warning = info


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ObjectApi]:
    api = ObjectApi(tmp_path)
    yield api
    api.stop()


def keep(api: ObjectApi, record: LedgerJob, **changes: Any) -> None:
    """Keep a ledger with one Job."""
    labels = {LABEL_LEDGER: "true", LABEL_MODEL: "m", LABEL_DEPLOYMENT: "airflow", LABEL_LINEAGE: KEY}
    metadata = {"name": ledger_name("m", KEY), "labels": labels, "annotations": {"gpu-training.io/fingerprint": "f"}}
    ledger = ledger_of(record, **{"updated_at": 1.0, **changes})
    api.put(LEDGER, {"metadata": metadata, "data": {LEDGER_KEY: to_text(ledger)}})


def kept(api: ObjectApi) -> Ledger:
    return from_text(api.objects[LEDGER]["data"][LEDGER_KEY])


def with_books(api: ObjectApi, work: Callable[[Bookkeeper], Awaitable[Any]], *, result_required: bool = True) -> Any:
    """Give what some work with the books of the Job gives."""

    async def run() -> Any:
        async with Cluster(api.address) as cluster:
            return await work(
                Bookkeeper(
                    cluster,
                    LedgerStore(cluster, LINEAGE),
                    REFERENCE,
                    1,
                    policy=Policy(result_required=result_required, rules=built_in_rules()),
                    terms=Terms(budget=BUDGET, has_fallback=False, memory_cap="8Gi"),
                    mlflow_run_id="r",
                    log=Log(),
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
