"""Asks an Airflow for its services, pools and DAGs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gpu_training.airflow_client import AirflowClient, AirflowError, NotFoundError
from gpu_training.core.check_airflow import Airflow, Pool, dags_of
from gpu_training.core.precedence import BACKFILL_POOL, NIGHTLY_POOL

T = TypeVar("T")


def look_at_airflow(client: AirflowClient, models: Iterable[str]) -> Airflow:
    """Give what an Airflow says of itself and of the models' DAGs; what it does not tell is said, not raised."""
    hidden: dict[str, str] = {}

    def asked(what: str, question: Callable[[], T], otherwise: T) -> T:
        try:
            return question()
        except AirflowError as error:
            hidden[what] = str(error)
            return otherwise

    nothing: dict[str, str] = {}
    health = asked("health", client.health, nothing)
    if not health:
        return Airflow(url=client.url, hidden=hidden)
    return Airflow(
        url=client.url,
        health=health,
        pools=asked("pools", lambda: {name: _pool(client, name) for name in (NIGHTLY_POOL, BACKFILL_POOL)}, {}),
        dags=asked("dags", lambda: {dag: _paused(client, dag) for dag in dags_of(models)}, {}),
        import_errors=_import_errors(client),
        hidden=hidden,
    )


def _pool(client: AirflowClient, name: str) -> Pool | None:
    try:
        details = client.pool(name)
    except NotFoundError:
        return None
    return Pool(slots=details.slots, include_deferred=details.include_deferred)


def _paused(client: AirflowClient, dag: str) -> bool | None:
    try:
        return client.dag(dag).is_paused
    except NotFoundError:
        return None


def _import_errors(client: AirflowClient) -> dict[str, str]:
    """Give the last line of each file's error; they explain a DAG that is absent, and are no check of their own."""
    try:
        return {file: trace.strip().rpartition("\n")[2] for file, trace in client.import_errors().items()}
    except AirflowError:
        return {}
