"""A DAG of a test's own, run whole by Airflow in this process: training, retry and XCom as in production."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.trainings import SUCCEED, data_version, jobs_of, spec
from tests.fake_mlflow import FakeMlflow
from tests.light_airflow import LightAirflow

from sandbox.cluster import Sandbox

pytestmark = pytest.mark.cluster

DAG = """
from datetime import timedelta
from airflow.sdk import DAG
from gpu_training.operators.gpu_training import GpuTrainingOperator

with DAG({dag_id!r}, params={{"script": {script!r}}}):
    GpuTrainingOperator(
        task_id="train", training={training!r}, data_version={data!r}, registered_model="shell",
        retries=1, retry_delay=timedelta(seconds=0),
    )
"""


def dag_of(dag_id: str, training: dict[str, Any]) -> str:
    script = training["entrypoint"][-1]
    template = training | {"entrypoint": ["sh", "-c", "{{ params.script }}"]}
    return DAG.format(dag_id=dag_id, script=script, training=template, data=data_version())


def test_a_dag_of_the_test_s_own_trains_on_the_sandbox(
    light_airflow: LightAirflow, sandbox: Sandbox, namespace: str, mlflow: FakeMlflow
) -> None:
    light_airflow.write_dag("dag", dag_of("one_training", spec(namespace, SUCCEED)))
    run = light_airflow.run("one_training")
    assert (run.state, run.states) == ("success", {"train": "success"})
    (job,) = jobs_of(sandbox, namespace)
    assert run.result("train")["job_uid"] == job["metadata"]["uid"]
    assert len(mlflow.runs) == 1


def test_a_run_s_params_reach_its_tasks_and_a_failure_is_tried_again(
    light_airflow: LightAirflow, sandbox: Sandbox, namespace: str
) -> None:
    light_airflow.write_dag("dag", dag_of("two_tries", spec(namespace, SUCCEED)))
    run = light_airflow.run("two_tries", script="exit 1")
    assert (run.state, run.states) == ("failed", {"train": "failed"})
    assert len(jobs_of(sandbox, namespace)) == 2
