"""The way out of a wait: the last one out takes the Job away and has that written; one who leaves others does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from tests.fake_mlflow import FakeMlflow
from tests.light_airflow import connect_mlflow
from tests.unit.cluster.object_server import ObjectApi
from tests.unit.core.kubernetes_documents import NAMESPACE, container, job, moment, pod, running, succeeded_pod
from tests.unit.core.ledgers import verdict
from tests.unit.triggers.one_job import JOB, LEDGER, LINEAGE, RECORD, REFERENCE, Log, keep, kept

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.jobs import pods_path
from gpu_training.cluster.ledger_store import LedgerStore
from gpu_training.core.decide import Policy
from gpu_training.core.ledger import Ending
from gpu_training.core.naming import ANNOTATION_WAITERS, TaskTry
from gpu_training.core.verdict import LEFT, Action, Category, Verdict
from gpu_training.core.waiters import to_text, waiters_of
from gpu_training.rule_table import built_in_rules
from gpu_training.triggers import exit as exit_module
from gpu_training.triggers.exit import Exit

pytestmark = pytest.mark.unit

POD = pods_path(NAMESPACE, "a")
STALLED = verdict(Action.RETRY, Category.STALLED, "it reported no progress within 60 s")
SPENDS = {Category.STARTUP_TIMEOUT, Category.RUN_TIMEOUT, Category.STALLED}


class CollectingApi(ObjectApi):
    """Has a garbage collector: a Job's pods go some looks at them after their Job.

    :ivar lingers: looks at the pods for which they stay.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lingers = 2

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, dict[str, Any]]:
        reply = super().answer(method, path, query, body)
        if method == "GET" and path == pods_path(NAMESPACE) and JOB not in self.objects:
            self.lingers -= 1
            if self.lingers < 0:
                self.objects.pop(POD, None)
        return reply


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Airflow:
    """Answers for the states of task instances, as the supervisor does.

    :ivar states: task id -> state.
    """

    def __init__(self) -> None:
        self.states: dict[str, str | None] = {}

    def __call__(self, dag_id: str, **asked: Any) -> dict[str, dict[str, str | None]]:
        [task] = asked["task_ids"]
        return {run: {task: self.states[task]} for run in asked["run_ids"] if task in self.states}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[CollectingApi]:
    api = CollectingApi(tmp_path)
    yield api
    api.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(exit_module, "monotonic", clock)
    return clock


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    airflow = Airflow()
    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", staticmethod(airflow))
    return airflow


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMlflow]:
    """A tracking server with one run, `r`, which goes on."""
    server = FakeMlflow()
    server.runs["r"] = {"info": {"run_id": "r", "status": "RUNNING"}, "data": {"tags": []}}
    connect_mlflow(monkeypatch, server.uri)
    yield server
    server.stop()


def waiter(task: str = "mine") -> TaskTry:
    return TaskTry(dag_id="d", run_id="r", task_id=task, map_index=-1, try_number=1)


def runs() -> dict[str, Any]:
    return pod("Running", container(running(20)), name="a", scheduled=10)


def furnish(api: ObjectApi, *tasks: str, its_pod: dict[str, Any] | None = None) -> None:
    """Have a Job with a pod, on which these tasks wait, and its ledger."""
    keep(api, RECORD)
    api.put(JOB, job(metadata={"annotations": {ANNOTATION_WAITERS: to_text(waiter(task) for task in tasks)}}))
    api.put(POD, its_pod if its_pod is not None else runs())


def take(
    api: ObjectApi,
    said: Verdict = STALLED,
    *,
    times: int = 1,
    between: Callable[[], None] = lambda: None,
    by: TaskTry | None = waiter(),  # noqa: B008 - a value
) -> tuple[list[bool], Log]:
    """Give what each of some tries to leave gave, and what was said.

    :param between: called after each of them.
    """
    log = Log()

    async def leave() -> list[bool]:
        async with Cluster(api.address) as cluster:
            store = LedgerStore(cluster, LINEAGE, tries=1)
            policy = Policy(rules=built_in_rules())
            way_out = Exit(
                cluster,
                store,
                REFERENCE,
                1,
                by,
                policy=policy,
                mlflow_conn_id="mlflow_tracking",
                mlflow_run_id="r",
                log=log,
            )
            given = []
            for _ in range(times):
                given.append(await way_out.take(said))
                between()
            return given

    return asyncio.run(leave()), log


# The last one out.


def test_the_last_one_out_takes_the_job_away_and_returns_when_its_pods_are_gone(
    api: CollectingApi, mlflow: FakeMlflow
) -> None:
    furnish(api, "mine")
    left, log = take(api)

    assert left == [True]
    assert JOB not in api.objects
    assert POD not in api.objects
    assert api.count("DELETE") == 1
    assert mlflow.status_of("r") == "FAILED"
    assert log.warnings == [f"Giving up on Job {NAMESPACE}/{REFERENCE.name}: {STALLED.summary}"]
    assert log.lines == [f"Deleted Job {NAMESPACE}/{REFERENCE.name}: nobody else waits on it"]


@pytest.mark.parametrize("category", sorted(LEFT))
def test_the_attempt_that_ran_has_ended_for_the_reason_if_it_took_too_long_itself(
    api: CollectingApi, mlflow: FakeMlflow, category: Category
) -> None:
    furnish(api, "mine")
    said = verdict(Action.RETRY, category)
    take(api, said)

    [record] = kept(api).jobs
    assert (record.ending, kept(api).open_job) == (Ending.DELETED, None)
    [ran] = record.attempts
    assert (ran.uid, ran.started_at, ran.ended_at) == ("uid-of-a", moment(10), record.ended_at)
    assert ran.verdict is not None
    assert (ran.verdict == said) is (category in SPENDS)
    assert record.failures == (1 if category in SPENDS else 0)


def test_what_waited_has_spent_nothing(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine", its_pod=pod("Pending", name="a", scheduled=None))
    take(api, verdict(Action.FAIL, Category.QUEUE_TIMEOUT))

    [record] = kept(api).jobs
    assert (record.failures, record.gpu_seconds) == (0, 0.0)
    assert record.waited[0][0] == moment(0)
    assert record.wall_seconds(record.ended_at or 0.0) < 5


def test_a_training_that_succeeded_meanwhile_has_succeeded(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine", its_pod=succeeded_pod(name="a"))
    left, _ = take(api)

    assert left == [True]
    [record] = kept(api).jobs
    assert record.ending is Ending.SUCCEEDED
    assert kept(api).trained_in(1) is not None


def test_pods_that_do_not_go_are_told_and_not_waited_for_without_an_end(
    api: CollectingApi, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exit_module, "_GONE_WITHIN_S", 0.3)
    furnish(api, "mine")
    api.lingers = 10_000
    left, log = take(api)

    assert left == [True]
    assert log.warnings[-1].endswith("its pods are not gone after 0.3 s")
    assert mlflow.status_of("r") == "FAILED"


def test_a_tracking_server_that_is_away_holds_nothing_up(
    api: CollectingApi, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MLFLOW_TRACKING")
    furnish(api, "mine")
    left, log = take(api)

    assert left == [True]
    assert JOB not in api.objects
    assert log.warnings[-1].startswith("MLflow run r is left as it is: ")


# Others wait.


@pytest.mark.parametrize("state", ["deferred", "running", None, "up_for_retry"])
def test_a_job_on_which_others_wait_stays_and_its_ledger_stays_open(
    api: CollectingApi, mlflow: FakeMlflow, airflow: Airflow, state: str | None
) -> None:
    airflow.states["another"] = state
    furnish(api, "mine", "another")
    left, log = take(api)

    assert left == [True]
    assert api.count("DELETE") == 0
    assert waiters_of(api.objects[JOB]["metadata"]["annotations"][ANNOTATION_WAITERS]) == (waiter("another"),)
    assert kept(api).open_job == RECORD
    assert mlflow.status_of("r") == "RUNNING"
    assert log.lines == [f"Left Job {NAMESPACE}/{REFERENCE.name}: others wait on it, or it is over"]


def test_without_an_answer_from_airflow_the_others_count(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine", "another")
    assert take(api)[0] == [True]
    assert JOB in api.objects


@pytest.mark.parametrize("state", ["failed", "success", "removed"])
def test_others_that_have_ended_do_not_hold_the_job(
    api: CollectingApi, mlflow: FakeMlflow, airflow: Airflow, state: str
) -> None:
    airflow.states["another"] = state
    furnish(api, "mine", "another")
    take(api)
    assert JOB not in api.objects


def test_a_try_that_is_not_known_leaves_the_job_as_it_is(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine")
    assert take(api, by=None)[0] == [True]
    assert api.asked == []


def test_a_try_that_is_not_on_the_list_has_no_say(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "another")
    assert take(api)[0] == [True]
    assert JOB in api.objects
    assert kept(api).open_job == RECORD


def test_a_job_that_is_gone_or_another_by_now_is_left(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine")
    api.put(JOB, job(metadata={"uid": "another"}))
    assert take(api)[0] == [True]
    assert JOB in api.objects
    del api.objects[JOB]
    assert take(api)[0] == [True]
    assert mlflow.status_of("r") == "RUNNING"


# The API server can not be asked.


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [(("GET", "/jobs/"), (503, "away")), (("DELETE", "/jobs/"), (403, "no")), (("DELETE", "/jobs/"), (500, "broken"))],
    ids=["away", "forbidden", "broken"],
)
def test_a_job_that_can_not_be_left_is_tried_again_after_a_while_and_not_before(
    api: CollectingApi,
    mlflow: FakeMlflow,
    clock: Clock,
    request_: tuple[str, str],
    refusal: tuple[int, str],
) -> None:
    furnish(api, "mine")
    api.refusals[request_] = refusal
    asked: list[int] = []

    def between() -> None:
        asked.append(len(api.asked))
        if len(asked) == 2:
            api.refusals.clear()
            clock.now += 5.0

    left, log = take(api, times=3, between=between)
    assert left == [False, False, True]
    assert asked[0] == asked[1]
    assert "it is tried again" in log.warnings[1]
    assert JOB not in api.objects
    assert kept(api).jobs[0].ending is Ending.DELETED
    assert mlflow.status_of("r") == "FAILED"


def test_an_api_server_that_falls_silent_after_the_deletion_is_asked_again_for_what_is_left_to_do(
    api: CollectingApi, mlflow: FakeMlflow, clock: Clock
) -> None:
    """The pods still hold their GPUs, and the MLflow run is not closed."""
    furnish(api, "mine")
    api.refusals["GET", pods_path(NAMESPACE)] = (403, "no")

    def between() -> None:
        assert JOB not in api.objects
        api.refusals.clear()
        clock.now += 5.0

    left, log = take(api, times=2, between=between)
    assert left == [False, True]
    assert POD not in api.objects
    assert mlflow.status_of("r") == "FAILED"
    assert log.lines == [f"Deleted Job {NAMESPACE}/{REFERENCE.name}: nobody else waits on it"]
    assert kept(api).jobs[0].ending is Ending.DELETED


def test_a_ledger_that_can_not_be_written_holds_nothing_up(api: CollectingApi, mlflow: FakeMlflow) -> None:
    """Whoever looks next finds the Job gone, and charges it."""
    furnish(api, "mine")
    api.refusals["PUT", LEDGER] = (403, "no")
    assert take(api)[0] == [True]
    assert JOB not in api.objects
    assert kept(api).open_job == RECORD


def test_a_job_that_another_record_stands_for_is_not_written_there(api: CollectingApi, mlflow: FakeMlflow) -> None:
    furnish(api, "mine")
    keep(api, replace(RECORD, uid="another"))
    take(api)
    assert kept(api).jobs[0] == replace(RECORD, uid="another")
