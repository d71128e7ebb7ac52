"""A stack that stays up: its users, and its services by their names."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx
import pytest

from gpu_training.airflow_client import AirflowError
from gpu_training.cli import DAG_PREFIX
from stack.lifecycle import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

DEADLINE_S = 180.0
# A model whose DAG no other test switches on.
DAG_ID = f"{DAG_PREFIX}air-time"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {DEADLINE_S:g} s"
        time.sleep(0.2)


def jobs(stack: Stack, kind: str) -> int:
    """Count the processes of a kind that Airflow itself takes for running."""
    login = {"username": "admin", "password": stack.record.passwords["admin"]}
    with httpx.Client(base_url=stack.airflow_url, timeout=30, trust_env=False) as http:
        token = http.post("/auth/token", json=login).json()["access_token"]
        asked = {"job_type": kind, "job_state": "running"}
        answer = http.get("/api/v2/jobs", params=asked, headers={"authorization": f"Bearer {token}"})
    return int(answer.json()["total_entries"])


def test_another_program_finds_the_stack_by_its_folder(stack: Stack) -> None:
    found = Stack.attach(stack.folder)
    assert found is not None
    assert (found.airflow_url, found.mlflow_url) == (stack.airflow_url, stack.mlflow_url)
    with found.client() as client:
        assert set(client.health().values()) == {"healthy"}


def test_each_user_has_a_login_and_only_the_rights_of_its_role(stack: Stack) -> None:
    with stack.client("admin") as admin:
        stack.await_dag(admin, DAG_ID)
    with stack.client("viewer") as viewer:
        assert viewer.dag(DAG_ID).is_paused
        with pytest.raises(AirflowError, match="403"):
            viewer.unpause(DAG_ID)
    with stack.client("op") as operator:
        operator.unpause(DAG_ID)
        assert not operator.dag(DAG_ID).is_paused


def test_services_are_added_stopped_and_restarted_by_name(stack: Stack) -> None:
    supervisor = stack.host.supervisor
    for kind, second in (("SchedulerJob", "scheduler-2"), ("TriggererJob", "triggerer-2")):
        stack.start_service(second)
        wait_until(lambda kind=kind: jobs(stack, kind) == 2, f"{second} is at work")  # type: ignore[misc]
        supervisor.stop(second)
        assert not supervisor.status()[second].alive
    before = supervisor.status()["api-server"].pid
    supervisor.restart("api-server")
    assert supervisor.status()["api-server"].pid != before

    def answers() -> bool:
        with stack.client() as client:
            try:
                return not client.dag(DAG_ID).is_paused
            except AirflowError:
                return False

    wait_until(answers, "the api-server is back")
