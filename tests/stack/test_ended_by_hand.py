"""A person ends a training whose task is deferred: on the real triggerer and scheduler, nothing goes on running."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.stack.trainings import DAG_ID, Training, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]


@pytest.mark.case("C047")
def test_a_run_marked_as_failed_leaves_nothing_running_and_ends_as_failed(begin: Callable[[int], Training]) -> None:
    training = begin(4001)
    training.mark_run_failed()
    wait_until(training.is_gone, "Job and pods are gone")
    wait_until(lambda: training.task("clean_up")["state"] in ("success", "failed"), "clean_up has ended")
    wait_until(lambda: training.run_state() == "failed", "the run has ended as failed")
    wait_until(lambda: training.mlflow_status() == "KILLED", "the MLflow run is closed")


@pytest.mark.case("C047")
@pytest.mark.case("C077")
def test_a_task_that_is_cleared_keeps_its_job_and_one_that_is_then_marked_loses_it(
    begin: Callable[[int], Training],
) -> None:
    training = begin(4002)
    before = training.told()
    body = {"task_ids": ["train"], "dag_run_id": training.run_id, "dry_run": False, "only_failed": False}
    training.http.post(f"/api/v2/dags/{DAG_ID}/clearTaskInstances", json=body).raise_for_status()
    wait_until(lambda: training.task()["try_number"] == 2 and training.is_training(), "the second try waits")
    assert training.told()["job_uid"] == before["job_uid"]
    training.mark_task_failed()
    wait_until(training.is_gone, "Job and pods are gone")
    wait_until(lambda: training.run_state() == "failed", "the run has failed")
    wait_until(lambda: training.mlflow_status() == "KILLED", "the MLflow run is closed")
