"""A DAG a scenario: the training, and, where the row is about it, a task that registers the model."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from airflow.sdk import DAG, BaseOperator, task

from bench.waste import settings
from bench.waste.program import register
from bench.waste.rows import Column, Scenario, scenarios


def build_dags(column: Column, train: Callable[[Scenario], BaseOperator]) -> dict[str, DAG]:
    """Give the DAGs of a column, by id.

    Registration is a task of its own but in the column `stock`, whose container does it: the operator has no other
    place for it.
    """
    dags = {}
    for scenario in scenarios(column):
        with DAG(
            dag_id=scenario.dag_id, schedule=None, start_date=datetime(2026, 1, 1), is_paused_upon_creation=False
        ) as dag:
            trained = train(scenario)
            if scenario.row.name == "mlflow-down" and column is not Column.STOCK:
                trained >> registration(settings.mlflow_url(), f"waste-{scenario.row.name}")
        dags[dag.dag_id] = dag
    return dags


@task(task_id="register", retries=settings.RETRIES, retry_delay=settings.RETRY_DELAY)
def registration(url: str, name: str) -> None:
    """Register the model."""
    register(url, name)
