"""What a DAG run's state is, whatever its tasks did: decided by Airflow's own scheduler."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.dags

ROOT = Path(__file__).resolve().parent.parent.parent
TASKS = ("resolve", "train", "register", "clean_up")


@pytest.fixture(scope="module")
def scheduled(airflow_database: None) -> Any:
    """Give a DAG of the project as the scheduler has it."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    bag = DagBag(dag_folder=ROOT / "dags", bundle_name="dags-folder")
    sync_bag_to_db(bag, "dags-folder", None)
    with create_session() as session:
        return DBDagBag().get_latest_version_of_dag("train_on_demand__flight-delay", session=session)


OUTCOMES = [
    ("success success success success", "success"),
    ("success skipped skipped success", "success"),
    ("success failed upstream_failed success", "failed"),
    ("failed upstream_failed upstream_failed success", "failed"),
    ("success success failed success", "failed"),
    ("success success success failed", "failed"),
    ("success failed upstream_failed failed", "failed"),
    ("success success success running", "running"),
    ("success success running success", "running"),
]


@pytest.mark.parametrize(("states", "expected"), OUTCOMES)
def test_the_run_s_state_hides_neither_the_training_s_failure_nor_the_clean_up_s(
    scheduled: Any, states: str, expected: str
) -> None:
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState, TaskInstanceState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    with create_session() as session:
        run = scheduled.create_dagrun(
            run_id=f"manual__{uuid.uuid4()}",
            run_after=datetime(2026, 3, 1, tzinfo=UTC),
            run_type=DagRunType.MANUAL,
            triggered_by=DagRunTriggeredByType.TEST,
            state=DagRunState.RUNNING,
            session=session,
        )
        for instance in run.get_task_instances(session=session):
            instance.state = TaskInstanceState(states.split()[TASKS.index(instance.task_id)])
        session.flush()
        run.dag = scheduled
        run.update_state(session=session, execute_callbacks=False)
        assert str(run.state) == expected
