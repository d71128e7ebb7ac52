"""What all columns have in common, so that they differ in their operator and in nothing else."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.waste import program
from bench.waste.rows import LABEL, Column, Scenario

FOLDER_VARIABLE = "GPU_TRAINING_BENCH_FOLDER"
"""Environment variable of Airflow's services with the folder that trainings and benchmark share."""

NAMESPACE = "gpu-training"
IMAGE = "sandbox-shell:1"
COMMAND = ("python3", program.__file__)
REQUESTS = {"cpu": "10m", "memory": "64Mi"}
LIMITS = {"memory": "64Mi", "nvidia.com/gpu": "1"}
MEMORY_CAP = "256Mi"

RETRIES = 2
RETRY_DELAY = timedelta(seconds=5)
"""Airflow's default is five minutes; so no row takes an hour."""

BACKOFF_LIMIT = 2
DEADLINE_S = 240
"""What ours and tuned give as the Job's activeDeadlineSeconds: four times what a training takes, so that one that is
taken from its node three times, with Kubernetes' 10, 20 and 40 s before each replacement, comes to its end."""
BUDGET_GPU_S = 90
"""What ours gives as a budget of GPU-seconds: one and a half times what a training takes."""


def task_arguments() -> dict[str, Any]:
    """Give the arguments of the task itself."""
    return {"task_id": "train", "retries": RETRIES, "retry_delay": RETRY_DELAY}


def shared_folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])


def environment(scenario: Scenario) -> dict[str, str]:
    """Give the variables with a plain value."""
    values = {"WASTE_ROW": scenario.row.name, "WASTE_SIGNALS": str(shared_folder() / "signals")}
    if scenario.row.name == "mlflow-down" and scenario.column is Column.STOCK:
        values["WASTE_REGISTER_URL"] = mlflow_url()
    return values


def environment_from_pod() -> list[dict[str, Any]]:
    """Give the variables with a field of the pod."""
    memory = {"resource": "limits.memory"}
    return [
        {"name": "WASTE_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "WASTE_MEMORY_BYTES", "valueFrom": {"resourceFieldRef": memory}},
    ]


def labels(scenario: Scenario) -> dict[str, str]:
    return {LABEL: scenario.key}


def node_selector(scenario: Scenario) -> dict[str, str]:
    return {LABEL: scenario.nodes}


def checkpoints(scenario: Scenario) -> Path:
    """Give the folder below which a scenario's progress is kept, so that whatever runs again resumes."""
    return shared_folder() / "checkpoints" / scenario.key


def mlflow_url() -> str:
    return os.environ["AIRFLOW_CONN_MLFLOW_TRACKING"]
