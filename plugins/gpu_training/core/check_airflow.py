"""What an Airflow needs for trainings: services that beat, pools that count what waits, DAGs that are not paused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_training.core.check_up import Check, State

SERVICES: Final[Mapping[str, str]] = {
    "scheduler": "no task is started",
    "dag_processor": "changes of DAG and model files are not seen",
    "triggerer": "trainings begin, and nobody learns of their end",
}
"""Services that have to run, and what happens without each."""

_FORMS: Final = ("nightly_retraining__", "train_on_demand__")
_UNLIMITED: Final = -1
_HEALTHY: Final = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One of Airflow's pools.

    :param slots: -1 for no bound.
    :param include_deferred: whether tasks that wait in the triggerer hold a slot.
    """

    slots: int
    include_deferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Airflow:
    """What an Airflow says of itself. What could not be asked is absent, and `hidden` says why.

    :param health: status of each service.
    :param pools: by name; None for one that does not exist.
    :param dags: by id, whether it is paused; None for one that does not exist.
    :param import_errors: by file, the last line of what is wrong with it.
    :param hidden: by `health`, `pools` or `dags`, why it could not be asked.
    """

    url: str
    health: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Pool | None] = field(default_factory=dict)
    dags: Mapping[str, bool | None] = field(default_factory=dict)
    import_errors: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)


def dags_of(models: Iterable[str]) -> tuple[str, ...]:
    """Give the ids of the models' DAGs."""
    return tuple(form + model for model in models for form in _FORMS)


def check_airflow(airflow: Airflow) -> tuple[Check, ...]:
    """Give the checks of an Airflow."""
    subject = f"Airflow at {airflow.url}"
    hidden = (
        Check(name=f"airflow/{what}", subject=subject, state=State.BROKEN, said=why, remedy=_REMEDIES[what])
        for what, why in airflow.hidden.items()
    )
    services = (_service(name, airflow.health.get(name, ""), subject) for name in SERVICES) if airflow.health else ()
    return (
        *hidden,
        *services,
        *(_pool(name, pool, subject) for name, pool in airflow.pools.items()),
        *(_dag(dag, paused, airflow.import_errors, subject) for dag, paused in airflow.dags.items()),
    )


_REMEDIES: Final[Mapping[str, str]] = {
    "health": "start Airflow's api-server, or correct --airflow-url",
    "pools": "correct the login, or give its user the right to read pools",
    "dags": "correct the login, or give its user the right to read DAGs",
}


def _service(name: str, status: str, subject: str) -> Check:
    shown = name.replace("_", " ")
    if status == _HEALTHY:
        return Check(name=f"airflow/{name}", subject=subject, state=State.OK, said=f"the {shown} is healthy")
    said = f"the {shown} is {status if status not in ('', 'None') else 'absent'}: {SERVICES[name]}"
    remedy = f"start it (`airflow {name.replace('_', '-')}`), and look into its log for why it ended"
    return Check(name=f"airflow/{name}", subject=subject, state=State.BROKEN, said=said, remedy=remedy)


def _pool(name: str, pool: Pool | None, subject: str) -> Check:
    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name=f"airflow/pool/{name}", subject=subject, state=state, said=said, remedy=remedy)

    if pool is None:
        said = f"pool {name} does not exist: tasks in it are never scheduled, and nothing says so"
        return check(State.BROKEN, said, "airflow pools import include/pools.json")
    if pool.slots == 0:
        said = f"pool {name} has no slots: tasks in it are never scheduled"
        return check(State.BROKEN, said, f"airflow pools set --include-deferred {name} SLOTS ''")
    if not pool.include_deferred:
        said = f"pool {name} does not count deferred tasks: trainings that wait hold no slot, so that it bounds nothing"
        return check(State.WARNING, said, f"airflow pools set --include-deferred {name} {pool.slots} ''")
    slots = "any number of trainings" if pool.slots == _UNLIMITED else f"{pool.slots} trainings at once"
    return check(State.OK, f"pool {name} lets in {slots}, deferred ones counted")


def _dag(dag: str, paused: bool | None, import_errors: Mapping[str, str], subject: str) -> Check:
    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name=f"airflow/dag/{dag}", subject=subject, state=state, said=said, remedy=remedy)

    if paused is None:
        errors = "; ".join(f"{file}: {error}" for file, error in sorted(import_errors.items()))
        said = f"DAG {dag} does not exist" + (f"; files with errors: {errors}" if errors else "")
        return check(
            State.BROKEN, said, "repair the file, or see that dags/ and include/models are where Airflow reads"
        )
    if paused:
        return check(State.WARNING, f"DAG {dag} is paused: its runs wait", f"airflow dags unpause {dag}")
    return check(State.OK, f"DAG {dag} is there")
