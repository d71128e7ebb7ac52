"""The task of the column `ours`."""

from __future__ import annotations

import hashlib
from typing import Any

from airflow.sdk import BaseOperator

from bench.waste import settings
from bench.waste.rows import Scenario
from gpu_training.operators.gpu_training import GpuTrainingOperator

DATA_VERSION = {
    "source": "bench",
    "ref": "latest",
    "id": "2013-w01",
    "digest": "sha256:" + hashlib.sha256(b"2013-w01").hexdigest(),
    "uri": "s3://bench/versions/2013-w01/manifest.json",
    "created_at": "2013-01-08T00:00:00+00:00",
}


def training(scenario: Scenario) -> dict[str, Any]:
    """Give the training spec."""
    return {
        "model": f"waste-{scenario.row.name}",
        "image": settings.IMAGE,
        "entrypoint": list(settings.COMMAND),
        "environment": settings.environment(scenario),
        "resources": {"requests": settings.REQUESTS, "limits": settings.LIMITS},
        "node_selector": settings.node_selector(scenario),
        "shared_memory": "0",
        "deadline_seconds": settings.DEADLINE_S,
        "backoff_limit": settings.BACKOFF_LIMIT,
        "budget": {"gpu_seconds": settings.BUDGET_GPU_S},
        "memory_growth": {"factor": 2, "maximum": settings.MEMORY_CAP},
        "ttl_seconds_after_finished": 3600,
        "namespace": settings.NAMESPACE,
        "checkpoint_uri": f"file://{settings.checkpoints(scenario)}",
    }


def train(scenario: Scenario) -> BaseOperator:
    """Give the task."""
    container = {"name": GpuTrainingOperator.BASE_CONTAINER_NAME, "env": settings.environment_from_pod()}
    return GpuTrainingOperator(
        training=training(scenario),
        data_version=DATA_VERSION,
        kubernetes_conn_id=scenario.connection,
        labels=settings.labels(scenario),
        full_job_spec={"spec": {"template": {"spec": {"containers": [container]}}}},
        **settings.task_arguments(),
    )
