"""Stands where a task or a trigger asks Airflow's supervisor for the state of its own task instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk.execution_time.comms import GetTaskStates, TaskStatesResult
from airflow.sdk.execution_time.supervisor import set_supervisor_comms


@dataclass
class Supervisor:
    """Answers with one state for every task.

    :ivar state: what Airflow has; None for a task that was cleared; `removed` for one whose run was deleted.
    """

    state: str | None

    def send(self, message: Any) -> Any:
        if not isinstance(message, GetTaskStates):
            raise NotImplementedError(f"nothing answers {type(message).__name__} here")
        if self.state == "removed":
            return TaskStatesResult(task_states={})
        (run_id,), (task_id,) = message.run_ids or [], message.task_ids or []
        key = task_id if message.map_index in (None, -1) else f"{task_id}_{message.map_index}"
        return TaskStatesResult(task_states={run_id: {key: self.state}})


@contextmanager
def airflow_says(state: str | None) -> Iterator[Supervisor]:
    """Have Airflow say this of every task instance."""
    supervisor = Supervisor(state)
    with set_supervisor_comms(supervisor):
        yield supervisor
