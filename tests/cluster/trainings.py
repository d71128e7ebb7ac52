"""Runs the operator and its trigger against the sandbox, as the task runner and the triggerer would."""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import json
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

from gpu_training.operators.gpu_training import GpuTrainingOperator
from gpu_training.triggers.training import TrainingJobTrigger
from sandbox.cluster import Sandbox

RESULT = json.dumps({"v": 1, "status": "trained", "metrics": {"mae": 1.5}, "model_uri": "models:/m-1", "device": "cpu"})
RUNS_ON = "trap 'exit 85' TERM; echo on it; sleep 600 & wait"
SUCCEED = f"echo hello; echo '{RESULT}' > /dev/termination-log"


def spec(namespace: str, script: str, **changes: Any) -> dict[str, Any]:
    """Give a training spec that runs a shell script."""
    return {
        "model": "shell",
        "image": "sandbox-shell:1",
        "entrypoint": ["sh", "-c", script],
        "resources": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "limits": {"memory": "64Mi", "nvidia.com/gpu": 1},
        },
        "shared_memory": "16Mi",
        "deadline_seconds": 120,
        "backoff_limit": 0,
        "ttl_seconds_after_finished": 600,
        "namespace": namespace,
        **changes,
    }


def data_version(name: str = "2013-w01") -> dict[str, str]:
    return {
        "source": "flights",
        "ref": "latest",
        "id": name,
        "digest": "sha256:" + hashlib.sha256(name.encode()).hexdigest(),
        "uri": f"s3://flights/versions/{name}/manifest.json",
        "created_at": "2013-01-08T00:00:00+00:00",
    }


@dataclass
class TaskInstance:
    """What the operator sees of a task instance; its XComs stay readable."""

    run_id: str = field(default_factory=lambda: f"manual__{uuid.uuid4()}")
    run_type: str = "manual"
    dag_id: str = "train_on_demand__shell"
    task_id: str = "train"
    map_index: int = -1
    try_number: int = 1
    max_tries: int = 0
    start_date: datetime = field(default_factory=lambda: datetime.now(UTC))
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        json.dumps(value)
        self.xcoms[key] = value

    def next_try(self) -> TaskInstance:
        return replace(self, try_number=self.try_number + 1, xcoms={})

    @property
    def context(self) -> Any:
        return {
            "ti": self,
            "run_id": self.run_id,
            "dag_run": SimpleNamespace(dag_id=self.dag_id, run_id=self.run_id, run_type=self.run_type),
            "dag": SimpleNamespace(),
        }


def operator(training: dict[str, Any], **changes: Any) -> GpuTrainingOperator:
    parameters: dict[str, Any] = {"task_id": "train", "data_version": data_version(), "registered_model": "shell"}
    return GpuTrainingOperator(training=training, **{**parameters, **changes})


def execute(task: GpuTrainingOperator, instance: TaskInstance) -> Any:
    """Run execute() as the task runner does."""
    context = contextvars.copy_context()
    context.run(ExecutorSafeguard.tracker.set, task)
    return context.run(task.execute, instance.context)


def defer(task: GpuTrainingOperator, instance: TaskInstance) -> TrainingJobTrigger:
    """Run execute() until it defers, and give the trigger as the triggerer builds it: from its serialized form."""
    try:
        told = execute(task, instance)
    except TaskDeferred as deferral:
        return _as_the_triggerer_builds_it(deferral)
    raise AssertionError(f"the operator did not defer: {told}")


def _as_the_triggerer_builds_it(deferral: TaskDeferred) -> TrainingJobTrigger:
    path, arguments = deferral.trigger.serialize()
    assert path == "gpu_training.triggers.training.TrainingJobTrigger"
    return TrainingJobTrigger(**json.loads(json.dumps(arguments)))


def fire(trigger: TrainingJobTrigger, *, limit: float = 60) -> dict[str, Any]:
    """Run a trigger to its end, within so many seconds; it has to fire exactly once."""

    async def run() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(asyncio.wait_for(run(), limit))
    return dict(json.loads(json.dumps(payload)))


def jobs_of(sandbox: Sandbox, namespace: str) -> list[dict[str, Any]]:
    """Give the Jobs, the newest first."""
    items = sandbox.api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    return sorted(items, key=lambda job: str(job["metadata"]["name"]), reverse=True)


def ledger_of(sandbox: Sandbox, namespace: str) -> dict[str, Any]:
    """Give the one ledger that there is."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=gpu-training.io/ledger"
    (found,) = sandbox.api.request("GET", path)["items"]
    return dict(json.loads(found["data"]["ledger.json"]))


def waiters_on(job: dict[str, Any]) -> list[list[Any]]:
    """Give the tries that wait on a Job, as its annotation has them."""
    return list(json.loads(job["metadata"]["annotations"]["gpu-training.io/waiters"]))


def pods_of(sandbox: Sandbox, namespace: str) -> list[dict[str, Any]]:
    return list(sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])


def is_running(sandbox: Sandbox, namespace: str) -> bool:
    """Whether a training container runs."""
    return any(
        "running" in status["state"]
        for pod in pods_of(sandbox, namespace)
        for status in pod["status"].get("containerStatuses", [])
    )


def train(task: GpuTrainingOperator, instance: TaskInstance) -> dict[str, Any]:
    """Defer, wait, resume; or give what the operator gives at once."""
    try:
        return dict(execute(task, instance))
    except TaskDeferred as deferral:
        return task.execute_complete(instance.context, fire(_as_the_triggerer_builds_it(deferral)))


@dataclass
class TaskLogRecord:
    """A task log that can be read."""

    lines: list[str] = field(default_factory=list)

    def _say(self, message: str, *args: object, **fields: object) -> None:
        self.lines.append(message % args if args else message)

    debug = info = warning = _say

    def about(self, part: str) -> list[str]:
        return [line for line in self.lines if part in line]


class RecordedTrigger(TrainingJobTrigger):
    """The trigger, with a log that can be read."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.record = TaskLogRecord()

    @property
    def log(self) -> Any:
        return self.record


def recorded(trigger: TrainingJobTrigger) -> RecordedTrigger:
    return RecordedTrigger(**trigger.serialize()[1])
