"""Follow a run of one of our DAGs over Airflow's API, and sum it up when it has ended. The CLI and the demo use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_training.airflow_client import AirflowClient, AirflowUnreachableError, LogCursor, RunState, TaskStatus
from gpu_training.contract import Progress
from gpu_training.core.phase import Phase
from gpu_training.core.progress_text import parse

RESOLVE, TRAIN, REGISTER = "resolve", "train", "register"
POLL_S = 1.0
PATIENCE_S = 120.0
"""How long Airflow may be away while a run is followed: longer than a restart of its api-server."""

_SILENT = frozenset({"success", "failed", "skipped", "upstream_failed", "removed", "up_for_retry"})
"""States in which a try's log does not grow."""

_TAIL_LINES = 40
_FOLDS = ("::group::", "::endgroup::")
_PHASES = frozenset(Phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged:
    """A task came into another state, or began another try."""

    task: TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMade:
    """The training reported progress."""

    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseChanged:
    """The training came into another phase.

    :param text: the phase, a colon, and why it waits or where it runs.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWritten:
    """A task wrote a line that is neither progress nor a phase."""

    task_id: str
    line: str


RunEvent = TaskChanged | PhaseChanged | ProgressMade | LogWritten


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run came to. Whatever it did not get to is None.

    :param attempts: pods that trained, over all tries of the lineage.
    :param task_seconds: by task, for those that ended.
    :param failed_tasks: those that failed of themselves, not for another's failure.
    """

    dag_id: str
    run_id: str
    state: RunState
    data_version: str | None = None
    fingerprint: str | None = None
    job: str | None = None
    attempts: int | None = None
    gpu_seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    registered_model: str | None = None
    model_version: str | None = None
    mlflow_run_id: str | None = None
    task_seconds: Mapping[str, float] = field(default_factory=dict)
    failed_tasks: tuple[str, ...] = ()


def follow_run(
    client: AirflowClient,
    dag_id: str,
    run_id: str,
    *,
    poll_s: float = POLL_S,
    patience_s: float = PATIENCE_S,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[RunEvent]:
    """Give what happens in a run until it has ended.

    :param patience_s: how long Airflow may be unreachable in between.
    :raises AirflowError: Airflow refuses, or was away for too long.
    """
    follower = _Follower(client, dag_id, run_id)
    last_contact = clock()
    while True:
        try:
            ended = client.run_state(dag_id, run_id).is_final
            # The state is asked first: what a task wrote before the run ended is then in the logs that follow.
            yield from follower.look()
        except AirflowUnreachableError:
            if clock() - last_contact > patience_s:
                raise
        else:
            last_contact = clock()
            if ended:
                return
        sleep(poll_s)


class _Follower:
    """What of a run has been seen already."""

    def __init__(self, client: AirflowClient, dag_id: str, run_id: str) -> None:
        self._client = client
        self._run = (dag_id, run_id)
        self._seen: dict[str, TaskStatus] = {}
        self._cursors: dict[tuple[str, int], LogCursor] = {}

    def look(self) -> Iterator[RunEvent]:
        for task in self._client.tasks(*self._run):
            before = self._seen.get(task.task_id)
            changed = before is None or (before.state, before.try_number) != (task.state, task.try_number)
            if task.try_number > 0 and (changed or task.state not in _SILENT):
                yield from self._new_lines(task)
            if changed and task.state is not None:
                yield TaskChanged(task=task)
            self._seen[task.task_id] = task

    def _new_lines(self, task: TaskStatus) -> Iterator[RunEvent]:
        key = (task.task_id, task.try_number)
        cursor = self._cursors.setdefault(key, LogCursor(task_id=task.task_id, try_number=task.try_number))
        for line in self._client.new_log_lines(*self._run, cursor):
            yield _event(task.task_id, line)


def _event(task_id: str, line: str) -> RunEvent:
    if task_id == TRAIN:
        if progress := parse(line):
            return ProgressMade(progress=progress)
        if line.partition(":")[0].partition(" (")[0] in _PHASES:
            return PhaseChanged(text=line)
    return LogWritten(task_id=task_id, line=line)


def report_run(client: AirflowClient, dag_id: str, run_id: str) -> RunReport:
    """Sum up a run from its tasks' states and XComs.

    :raises AirflowError: Airflow refuses or is away.
    """
    tasks = client.tasks(dag_id, run_id)
    resolved, trained, registered = (
        _document(client.xcom(dag_id, run_id, task_id)) for task_id in (RESOLVE, TRAIN, REGISTER)
    )
    version = registered.get("model_version")
    return RunReport(
        dag_id=dag_id,
        run_id=run_id,
        state=client.run_state(dag_id, run_id),
        data_version=trained.get("data_version") or resolved.get("id"),
        fingerprint=trained.get("fingerprint"),
        job=trained.get("job"),
        attempts=trained.get("attempts"),
        gpu_seconds=trained.get("gpu_seconds"),
        metrics=trained.get("metrics") or {},
        registered_model=registered.get("registered_model"),
        model_version=None if version is None else str(version),
        mlflow_run_id=trained.get("mlflow_run_id"),
        task_seconds={task.task_id: round(task.seconds, 1) for task in tasks if task.seconds is not None},
        failed_tasks=tuple(task.task_id for task in tasks if task.state == "failed"),
    )


def log_tail(client: AirflowClient, dag_id: str, run_id: str, task_id: str) -> list[str]:
    """Give the last lines of a task's last try, without the marks by which the UI folds them."""
    tries = [task.try_number for task in client.tasks(dag_id, run_id) if task.task_id == task_id]
    if not tries or tries[0] < 1:
        return []
    entries = client.new_log_lines(dag_id, run_id, LogCursor(task_id=task_id, try_number=tries[0]))
    lines = [line for entry in entries if not entry.startswith(_FOLDS) for line in entry.splitlines()]
    return lines[-_TAIL_LINES:]


def _document(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
