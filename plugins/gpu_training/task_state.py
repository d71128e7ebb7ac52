"""What trigger and operator ask and do when a task is killed: the task instance's state, and its MLflow run's end."""

from __future__ import annotations

from typing import Final

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.naming import TaskTry
from gpu_training.task_log import TaskLog

_ENDED: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_CLEARED: Final = "cleared"
_REMOVED: Final = "removed"


def task_state(owner: TaskTry) -> str:
    """Give the state of a task instance as Airflow has it now: `cleared` for none, `removed` when its run was deleted.

    Blocks, and works inside a task or a triggerer only.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=owner.dag_id, task_ids=[owner.task_id], run_ids=[owner.run_id], map_index=owner.map_index
    )
    key = owner.task_id if owner.map_index < 0 else f"{owner.task_id}_{owner.map_index}"
    state = states.get(owner.run_id, {}).get(key, _REMOVED)
    return _CLEARED if state is None else str(state)


def has_ended(state: str) -> bool:
    """Whether nobody waits on the task's Job any more. A cleared task runs again, and adopts its Job."""
    return state in _ENDED


def close_run(mlflow_conn_id: str, run_id: str, log: TaskLog, *, killed: bool) -> None:
    """Close the MLflow run of a training that ended without a model; a server that is away is a warning. Blocks."""
    from gpu_training.registry.model_registry import ModelRegistry

    try:
        ModelRegistry.from_connection(mlflow_conn_id).close_run(run_id, killed=killed)
    except GpuTrainingError as error:
        log.warning("MLflow run %s is left as it is: %s", run_id, error)
