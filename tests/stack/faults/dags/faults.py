"""The example pipeline around a training that takes seconds and ends as it is told: `tests/stack/faults`.

A run names its connections, so that requests of one run alone can be held up.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from gpu_training.operators.clean_up import CleanUpOperator
from gpu_training.operators.imported_late import ImportedLateOperator
from gpu_training.pipeline import register

TRAINING = {
    "model": "faults",
    "image": "{{ params.image }}",
    "entrypoint": ["sh", "{{ params.script }}", "{{ params.folder }}", "{{ params.outcome }}", "{{ params.seconds }}"],
    "resources": {
        "requests": {"cpu": "50m", "memory": "32Mi"},
        "limits": {"memory": "32Mi", "nvidia.com/gpu": 1},
    },
    "node_selector": {"workload": "{{ params.workload }}"},
    "shared_memory": "16Mi",
    "deadline_seconds": 600,
    "backoff_limit": 0,
    "ttl_seconds_after_finished": 900,
    "namespace": "gpu-training",
}
DATA = {
    "source": "faults",
    "ref": "latest",
    "id": "2013-w01",
    "digest": "sha256:" + hashlib.sha256(b"2013-w01").hexdigest(),
    "uri": "s3://faults/versions/2013-w01/manifest.json",
    "created_at": "2013-01-08T00:00:00+00:00",
}

with DAG(
    dag_id="faults",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=64,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=1)},
    params={
        "image": "",
        "script": "",
        "folder": "",
        "outcome": "success",
        "seconds": "1",
        "workload": "gpu-training",
        "name": "none",
        "training_cluster": "kubernetes_gpu",
        "clean_up_cluster": "kubernetes_gpu",
        "registry": "mlflow_tracking",
    },
):
    train = ImportedLateOperator(
        task_id="train",
        runs="gpu_training.operators.gpu_training:GpuTrainingOperator",
        arguments={
            "training": TRAINING,
            "data_version": DATA,
            "registered_model": "faults-{{ params.name }}",
            "experiment": "faults",
            "kubernetes_conn_id": "{{ params.training_cluster }}",
        },
    )
    registered = register.override(execution_timeout=timedelta(minutes=5))(
        trained=train.output,  # type: ignore[arg-type]  # becomes the mapping on the worker
        alias="candidate",
        conn_id="{{ params.registry }}",
    )
    clean_up = CleanUpOperator(
        task_id="clean_up",
        kubernetes_conn_id="{{ params.clean_up_cluster }}",
        training_task_id="train",
        result_task_id="register",
        execution_timeout=timedelta(minutes=5),
    ).as_teardown(on_failure_fail_dagrun=True)
    train >> [registered, clean_up]
