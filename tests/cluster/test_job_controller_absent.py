"""A Job controller that is slow or away costs time, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest
from tests.cluster import trainings
from tests.cluster.trainings import SUCCEED, TaskInstance, defer, fire, jobs_of, operator, pods_of, recorded, spec
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.faults.programs import pause_program, resume_program
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

CONTROLLERS = "kube-controller-manager"


@contextmanager
def no_controllers(sandbox: Sandbox) -> Iterator[None]:
    pause_program(sandbox, CONTROLLERS)
    try:
        yield
    finally:
        resume_program(sandbox, CONTROLLERS)


def assert_one_pod_of_the_job(sandbox: Sandbox, namespace: str) -> dict[str, Any]:
    (job,) = jobs_of(sandbox, namespace)
    (pod,) = pods_of(sandbox, namespace)
    assert [owner["uid"] for owner in pod["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    return job


@pytest.mark.case("C001")
@pytest.mark.case("C002")
@pytest.mark.case("C006")
def test_a_job_whose_pod_is_late_is_waited_for_and_has_one_pod(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    payloads: list[dict[str, Any]] = []
    with no_controllers(sandbox):
        trigger = recorded(defer(operator(spec(namespace, SUCCEED)), TaskInstance()))
        waiting = Thread(target=lambda: payloads.append(fire(trigger)))
        waiting.start()
        wait_for(lambda: trigger.record.about("the Job has no pod yet"), 30, "a word about the pod that is missing")
        assert pods_of(sandbox, namespace) == []
    waiting.join()

    assert payloads[0]["kind"] == "succeeded"
    assert_one_pod_of_the_job(sandbox, namespace)


@pytest.mark.case("C002")
def test_a_worker_that_waits_itself_waits_for_the_pod_as_well(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    results: list[Any] = []
    task = operator(spec(namespace, SUCCEED), deferrable=False)
    with no_controllers(sandbox):
        waiting = Thread(target=lambda: results.append(trainings.execute(task, TaskInstance())))
        waiting.start()
        wait_for(lambda: jobs_of(sandbox, namespace), 30, "the Job")
    waiting.join()

    job = assert_one_pod_of_the_job(sandbox, namespace)
    assert results[0]["job_uid"] == job["metadata"]["uid"]
