"""What trigger and operator ask and do when a task is killed: the task instance's state, and its MLflow run's end."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.naming import TaskTry
from gpu_training.task_log import TaskLog

_log: Final = logging.getLogger(__name__)
_warming: asyncio.Task[bool] | None = None
_ENDED: Final = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
_CLEARED: Final = "cleared"
_REMOVED: Final = "removed"


def task_state(owner: TaskTry) -> str:
    """Give the state of a task instance as Airflow has it now: `cleared` for none, `removed` when its run was deleted.

    Blocks, and works inside a task or a triggerer only.
    """
    key = owner.task_id if owner.map_index < 0 else f"{owner.task_id}_{owner.map_index}"
    states = task_states(owner.dag_id, owner.run_id, [owner.task_id], map_index=owner.map_index)
    return states.get(key, _REMOVED)


def task_states(dag_id: str, run_id: str, task_ids: list[str], *, map_index: int | None = None) -> dict[str, str]:
    """Give the states of a run's tasks as Airflow has them now, by task id; what is not there is left out.

    Blocks, and works inside a task or a triggerer only.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    states = RuntimeTaskInstance.get_task_states(
        dag_id=dag_id, task_ids=task_ids, run_ids=[run_id], map_index=map_index
    )
    return {key: _CLEARED if state is None else str(state) for key, state in states.get(run_id, {}).items()}


def has_ended(state: str) -> bool:
    """Whether nobody waits on the task's Job any more. A cleared task runs again, and adopts its Job."""
    return state in _ENDED


async def is_alive(waiter: TaskTry) -> bool:
    """Whether a task instance still waits, or will again. Without an answer it counts: a Job is not deleted on a guess.

    Works inside a task or a triggerer only.
    """
    try:
        return not has_ended(await asyncio.to_thread(task_state, waiter))
    except Exception as error:  # of whatever kind
        _log.warning("the state of task %s could not be asked for: %s", waiter.task, error)
        return True


def warm_up(waiter: TaskTry) -> None:
    """Ask for a state once in this process, in the background.

    The first question has Airflow's supervisor build an API within the process: 5 s on a quiet machine, and ten times
    that on a busy one (measured with 3.3.2). Better now than while a kill waits for it and the GPU goes on.
    """
    global _warming
    if _warming is None:
        _warming = asyncio.create_task(is_alive(waiter))


def close_run(mlflow_conn_id: str, run_id: str, log: TaskLog, *, killed: bool) -> None:
    """Close the MLflow run of a training that ended without a model; a server that is away is a warning. Blocks."""
    from gpu_training.registry.model_registry import ModelRegistry

    try:
        ModelRegistry.from_connection(mlflow_conn_id).close_run(run_id, killed=killed)
    except GpuTrainingError as error:
        log.warning("MLflow run %s is left as it is: %s", run_id, error)
