"""Runs whose trainings go on at once: each waits on its own Job, in a thread of its own."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Thread
from typing import Any

from tests.cluster.trainings import SUCCEED, TaskInstance, defer, fire, operator, pods_of, spec

from gpu_training.core.precedence import priority_class_of
from sandbox.cluster import Sandbox

LIMIT_S = 120


class WaitingRun:
    """A run that waits on its training. Its pods have the priority class of its type.

    :param run_type: as Airflow has it.
    :param script: what the training program does.
    :param gpus: that it asks for.
    :param full_job_spec: the operator's.
    :param changes: of the training spec.
    """

    def __init__(
        self,
        namespace: str,
        run_type: str,
        script: str,
        *,
        gpus: int = 1,
        full_job_spec: dict[str, Any] | None = None,
        **changes: Any,
    ) -> None:
        training = spec(namespace, script, **{"priority_class": str(priority_class_of(run_type)), **changes})
        training["resources"]["limits"]["nvidia.com/gpu"] = gpus
        self.instance = TaskInstance(run_type=run_type)
        self._task = operator(training, full_job_spec=full_job_spec)
        self._trigger = defer(self._task, self.instance)
        self._told: list[dict[str, Any]] = []
        self._thread = Thread(target=lambda: self._told.append(fire(self._trigger, limit=LIMIT_S)))
        self._thread.start()

    @property
    def job(self) -> str:
        """Name of its Job."""
        return str(self._trigger.job["name"])

    def result(self) -> dict[str, Any]:
        """Wait for the end of the training, which has to succeed, and give what the task hands on."""
        self._thread.join()
        (told,) = self._told
        return self._task.execute_complete(self.instance.context, told)


def until(path: Path, *, also: str = "true") -> str:
    """Give a script that runs until the file is there, and then succeeds; told to end, it exits as one that was.

    :param also: what it does first.
    """
    path.parent.chmod(0o777)
    return f"trap 'exit 85' TERM; {also}; until [ -e {path} ]; do sleep 0.1 & wait $!; done; {SUCCEED}"


def pods_of_job(sandbox: Sandbox, namespace: str, job: str) -> list[dict[str, Any]]:
    return [pod for pod in pods_of(sandbox, namespace) if pod["metadata"]["labels"]["job-name"] == job]


def runs(sandbox: Sandbox, namespace: str, run: WaitingRun) -> bool:
    """Tell whether the training program of a run runs."""
    statuses = [
        status
        for pod in pods_of_job(sandbox, namespace, run.job)
        for status in pod["status"].get("containerStatuses", [])
    ]
    return any("running" in status["state"] for status in statuses)


def verdicts(sandbox: Sandbox, namespace: str, run: WaitingRun) -> list[tuple[str, str]]:
    """Give category and action for each attempt of a run's Job that did not succeed, as the ledger has them."""
    path = f"/api/v1/namespaces/{namespace}/configmaps?labelSelector=gpu-training.io/ledger"
    ledgers = [json.loads(each["data"]["ledger.json"]) for each in sandbox.api.request("GET", path)["items"]]
    attempts = [
        attempt for ledger in ledgers for job in ledger["jobs"] if job["name"] == run.job for attempt in job["attempts"]
    ]
    return [(each["verdict"]["category"], each["verdict"]["action"]) for each in attempts if each["verdict"]]
