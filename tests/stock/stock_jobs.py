"""Runs the stock KubernetesJobOperator and its trigger against the sandbox, as the task runner and the triggerer would.

Where it fails at once by chance, as when the Job's first pod takes a few milliseconds longer than usual, its own
parameters are set so that it does not: a fault has to show by itself, not by another one.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
import uuid
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from airflow.providers.cncf.kubernetes.operators.job import KubernetesJobOperator
from airflow.providers.cncf.kubernetes.triggers.job import KubernetesJobTrigger
from airflow.sdk.bases.operator import ExecutorSafeguard
from airflow.sdk.exceptions import TaskDeferred

from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

RUNS_ON = "trap 'exit 85' TERM; echo on it; sleep 600 & wait"
SUCCEED = "echo hello"
IMAGE = "sandbox-shell:1"
POLL_S = 0.5
POD_SECURITY = {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What the namespace's Pod Security level, `restricted`, asks for."""
GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
"""The only node has GPUs and their taint."""
LOOKS = 400
"""How often it lists the pods of a new Job before it gives up; its own number is 3, without a pause between."""


@dataclass
class TaskInstance:
    """What the operator sees of a task instance; its XComs stay readable."""

    run_id: str = field(default_factory=lambda: f"manual__{uuid.uuid4()}")
    dag_id: str = "stock"
    task_id: str = "train"
    map_index: int = -1
    try_number: int = 1
    xcoms: dict[str, Any] = field(default_factory=dict)

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value

    def next_try(self) -> TaskInstance:
        return replace(self, try_number=self.try_number + 1, xcoms={})

    @property
    def context(self) -> Any:
        return {
            "ti": self,
            "run_id": self.run_id,
            "dag_run": SimpleNamespace(dag_id=self.dag_id, run_id=self.run_id),
            "dag": SimpleNamespace(),
        }


class StockOperator(KubernetesJobOperator):
    """The stock operator, with a task log that can be read."""

    def __init__(self, **arguments: Any) -> None:
        self.lines: list[str] = []
        super().__init__(**arguments)

    @property
    def log(self) -> Any:
        def say(message: str, *args: object, **_: object) -> None:
            self.lines.append(message % args if args else message)

        return SimpleNamespace(**dict.fromkeys(("debug", "info", "warning", "error", "exception"), say))


def operator(namespace: str, script: str, **changes: Any) -> StockOperator:
    """Give the operator as a careful user would write it down to run a shell script."""
    parameters: dict[str, Any] = {
        "task_id": "train",
        "name": "train",
        "kubernetes_conn_id": "kubernetes_gpu",
        "namespace": namespace,
        "image": IMAGE,
        "cmds": ["sh", "-c", script],
        "backoff_limit": 0,
        "wait_until_job_complete": True,
        "deferrable": True,
        "job_poll_interval": POLL_S,
        "discover_pods_retry_number": LOOKS,
        "termination_grace_period": 2,
        "tolerations": [GPU_TOLERATION],
        "security_context": POD_SECURITY,
        "container_security_context": CONTAINER_SECURITY,
    }
    return StockOperator(**{**parameters, **changes})


def execute(task: KubernetesJobOperator, instance: TaskInstance) -> Any:
    """Run execute() as the task runner does."""
    context = contextvars.copy_context()
    context.run(ExecutorSafeguard.tracker.set, task)
    return context.run(task.execute, instance.context)


def deferral(task: KubernetesJobOperator, instance: TaskInstance) -> TaskDeferred:
    """Run execute() until it defers, and give what the task runner gets."""
    try:
        execute(task, instance)
    except TaskDeferred as deferred:
        return deferred
    raise AssertionError("the operator did not defer")


def defer(task: KubernetesJobOperator, instance: TaskInstance) -> KubernetesJobTrigger:
    """Run execute() until it defers, and give the trigger as the triggerer builds it: from its serialized form."""
    _, arguments = deferral(task, instance).trigger.serialize()
    return KubernetesJobTrigger(**json.loads(json.dumps(arguments)))


def fire(trigger: KubernetesJobTrigger) -> dict[str, Any]:
    """Run a trigger to its end; it has to fire exactly once."""

    async def run() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    (payload,) = asyncio.run(asyncio.wait_for(run(), 60))
    return dict(payload)


def train(task: KubernetesJobOperator, instance: TaskInstance) -> Any:
    """Defer, wait, resume."""
    return task.execute_complete(instance.context, fire(defer(task, instance)))


class Background:
    """Something that runs in a thread of its own; :meth:`outcome` gives what it returned or raised."""

    def __init__(self, work: Any) -> None:
        self._outcome: list[Any] = []

        def run() -> None:
            try:
                self._outcome.append(work())
            except Exception as exc:
                self._outcome.append(exc)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def outcome(self) -> Any:
        self._thread.join()
        return self._outcome[0]


def jobs_of(sandbox: Sandbox, namespace: str) -> list[dict[str, Any]]:
    return list(sandbox.api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"])


def pods_of(sandbox: Sandbox, namespace: str) -> list[dict[str, Any]]:
    return list(sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])


def start_pod(sandbox: Sandbox, namespace: str, name: str, labels: dict[str, str]) -> None:
    """Start a pod that runs on and that no Job owns."""
    command = ["sh", "-c", RUNS_ON]
    container = {"name": "base", "image": IMAGE, "command": command, "securityContext": CONTAINER_SECURITY}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [container], "securityContext": POD_SECURITY, "tolerations": [GPU_TOLERATION]},
    }
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def running(sandbox: Sandbox, namespace: str) -> list[str]:
    """Give the names of the pods that run."""
    return [
        str(pod["metadata"]["name"])
        for pod in pods_of(sandbox, namespace)
        if any("running" in status["state"] for status in pod["status"].get("containerStatuses", []))
    ]


def await_running(sandbox: Sandbox, namespace: str, count: int = 1) -> list[str]:
    """Wait until so many pods run at once, and give their names."""
    wait_for(lambda: len(running(sandbox, namespace)) >= count, 60, f"{count} pods that run")
    return running(sandbox, namespace)


def await_base_end(sandbox: Sandbox, namespace: str, code: int) -> str:
    """Wait until a pod's base container has ended with a code, and give the pod's phase then."""

    def phases() -> list[str]:
        return [
            str(pod["status"]["phase"])
            for pod in pods_of(sandbox, namespace)
            for status in pod["status"].get("containerStatuses", [])
            if status["name"] == "base" and status["state"].get("terminated", {}).get("exitCode") == code
        ]

    wait_for(phases, 60, f"a base container that ends with {code}")
    return phases()[0]


def end_by_deadline(sandbox: Sandbox, namespace: str) -> str:
    """Have the one Job's deadline pass now, and give the reason of its failure: whatever ended it before stays."""
    (job,) = jobs_of(sandbox, namespace)
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{job['metadata']['name']}"
    body = {"spec": {"activeDeadlineSeconds": 1}}
    sandbox.api.request("PATCH", path, body, content_type="application/merge-patch+json")
    await_end(sandbox, namespace, "Failed")
    (job,) = jobs_of(sandbox, namespace)
    return next(str(c["reason"]) for c in job["status"]["conditions"] if c["type"] == "Failed")


def await_end(sandbox: Sandbox, namespace: str, condition: str) -> None:
    """Wait until the one Job has a final condition."""

    def has_ended() -> bool:
        (job,) = jobs_of(sandbox, namespace)
        return any(c["type"] == condition and c["status"] == "True" for c in job["status"].get("conditions", []))

    wait_for(has_ended, 60, f"the Job to be {condition}")


def evict(sandbox: Sandbox, namespace: str, name: str) -> None:
    """Evict a pod through the eviction API, as a drain does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
