"""Which Airflow deployment this is, and which of its task tries runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.configuration import conf

from gpu_training.core.naming import TaskTry

if TYPE_CHECKING:
    from airflow.sdk import Context


def deployment_id() -> str:
    """Give the option `[gpu_training] deployment_id`: two deployments that share a namespace never meet."""
    return str(conf.get("gpu_training", "deployment_id", fallback="airflow"))


def task_try(context: Context) -> TaskTry:
    """Give the try that runs in a context."""
    ti = context["ti"]
    return TaskTry(
        dag_id=ti.dag_id,
        run_id=ti.run_id,
        task_id=ti.task_id,
        map_index=ti.map_index if ti.map_index is not None else -1,
        try_number=ti.try_number,
    )
