"""What Airflow's scheduler does with the project's pools: who is let in, and what a deferred training counts for."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.dags

ROOT = Path(__file__).resolve().parent.parent.parent
POOLS = json.loads((ROOT / "include" / "pools.json").read_text())
FIRST = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def nightly(airflow_database: None) -> Any:
    """Give a nightly DAG as the scheduler has it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(DagBag(dag_folder=ROOT / "dags", bundle_name="dags-folder"), "dags-folder", None)
    with create_session() as session:
        return DBDagBag().get_latest_version_of_dag("nightly_retraining__flight-delay", session=session)


@pytest.fixture
def session(nightly: Any) -> Iterator[Any]:
    """Give a session whose work is undone; the pool that the tests use has two slots in it."""
    from airflow.models.dag import DagModel
    from airflow.models.pool import Pool
    from airflow.settings import Session
    from sqlalchemy import update

    session = Session()
    session.execute(update(DagModel).where(DagModel.dag_id == nightly.dag_id).values(is_paused=False))
    session.execute(update(Pool).where(Pool.pool.in_(("gpu_backfill", "default_pool"))).values(slots=2))
    yield session
    session.rollback()
    session.close()


def training(nightly: Any, session: Any, day: int, state: str, pool: str) -> Any:
    """Put a run's training into a state and a pool."""
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    due = FIRST + timedelta(days=day)
    run = nightly.create_dagrun(
        run_id=f"backfill__{uuid.uuid4()}",
        logical_date=due,
        data_interval=(due, due),
        run_after=due,
        run_type=DagRunType.BACKFILL_JOB,
        triggered_by=DagRunTriggeredByType.TEST,
        state=DagRunState.RUNNING,
        session=session,
    )
    instance = run.get_task_instance("train", session=session)
    instance.state, instance.pool = TaskInstanceState(state), pool
    session.flush()
    return instance


def let_in(session: Any) -> list[Any]:
    """Give the days of the runs whose training the scheduler would start now, in its order."""
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner

    scheduler = SchedulerJobRunner(Job())
    found = scheduler._executable_task_instances_to_queued(max_tis=10, session=session)
    return [(each.dag_run.logical_date - FIRST).days for each in found if each.task_id == "train"]


@pytest.mark.parametrize("pool", POOLS)
def test_the_project_s_pools_are_there_and_count_deferred_tasks(session: Any, pool: str) -> None:
    from airflow.models.pool import Pool

    found = Pool.get_pool(pool, session=session)
    assert found.include_deferred
    assert found.description == POOLS[pool]["description"]


def test_a_training_that_waits_in_the_cluster_keeps_its_slot(nightly: Any, session: Any) -> None:
    for day in (1, 2):
        training(nightly, session, day, "deferred", "gpu_backfill")
    training(nightly, session, 3, "scheduled", "gpu_backfill")
    assert let_in(session) == []


def test_in_the_default_pool_deferred_trainings_count_for_nothing(nightly: Any, session: Any) -> None:
    for day in (1, 2):
        training(nightly, session, day, "deferred", "default_pool")
    training(nightly, session, 3, "scheduled", "default_pool")
    assert let_in(session) == [3]


def test_a_training_that_has_ended_takes_its_turn_again_and_the_older_run_goes_first(
    nightly: Any, session: Any
) -> None:
    training(nightly, session, 2, "deferred", "gpu_backfill")
    # Its trigger has fired: it waits for a worker, to be told what came of it.
    training(nightly, session, 1, "scheduled", "gpu_backfill")
    training(nightly, session, 3, "scheduled", "gpu_backfill")
    assert let_in(session) == [1]


def test_a_pool_that_does_not_exist_lets_nothing_in(nightly: Any, session: Any) -> None:
    training(nightly, session, 1, "scheduled", "gpu_nigthly")
    training(nightly, session, 2, "scheduled", "gpu_nightly")
    assert let_in(session) == [2]
