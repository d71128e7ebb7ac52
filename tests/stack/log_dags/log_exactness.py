"""A training that runs a script of the test's, through its connections: `tests/stack/test_log_exactness.py`."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from airflow.sdk import DAG

from gpu_training.operators.imported_late import ImportedLateOperator

with DAG(
    dag_id="log_exactness",
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    params={"image": "", "script": "", "cluster": "kubernetes_gpu", "registry": "mlflow_tracking"},
):
    ImportedLateOperator(
        task_id="train",
        runs="gpu_training.operators.gpu_training:GpuTrainingOperator",
        arguments={
            "training": {
                "model": "log-exactness",
                "image": "{{ params.image }}",
                "entrypoint": ["python3", "{{ params.script }}"],
                "resources": {
                    "requests": {"cpu": "50m", "memory": "64Mi"},
                    "limits": {"memory": "64Mi", "nvidia.com/gpu": 1},
                },
                "shared_memory": "16Mi",
                "deadline_seconds": 600,
                "backoff_limit": 0,
                "ttl_seconds_after_finished": 900,
                "namespace": "gpu-training",
            },
            "data_version": {
                "source": "lines",
                "ref": "latest",
                "id": "2013-w01",
                "digest": "sha256:" + hashlib.sha256(b"2013-w01").hexdigest(),
                "uri": "s3://lines/versions/2013-w01/manifest.json",
                "created_at": "2013-01-08T00:00:00+00:00",
            },
            "registered_model": "log-exactness",
            "experiment": "log-exactness",
            "kubernetes_conn_id": "{{ params.cluster }}",
            "mlflow_conn_id": "{{ params.registry }}",
        },
    )
