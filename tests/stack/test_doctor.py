"""`gpu-training doctor` on the whole stack, with Airflow's own connections: a sound one, and what Airflow may lack."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.stack.trainings import wait_until

from gpu_training.commands.exits import Exit
from stack.assembly import airflow_environment
from stack.checkout import ROOT, airflow_python
from stack.lifecycle import Stack

pytestmark = pytest.mark.stack

POOL = "gpu_nightly"
TRIGGERER = "triggerer-1"


def doctor(stack: Stack) -> tuple[int, dict[str, dict[str, str]]]:
    """Give the exit code and the checks by name, as whoever operates the stack gets them."""
    command = [
        *(str(airflow_python()), "-m", "gpu_training.cli", "doctor", "flight-delay", "--conn-id", "kubernetes_gpu"),
        *("--airflow-url", stack.airflow_url, "--username", "admin"),
        *("--password-file", str(stack.passwords_file), "--json"),
    ]
    environment = {**os.environ, **airflow_environment(stack.folder, stack.record)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    for secret in stack.record.passwords.values():
        assert secret not in done.stdout + done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}


@contextmanager
def airflow_api(stack: Stack) -> Iterator[httpx.Client]:
    login = {"username": "admin", "password": stack.record.passwords["admin"]}
    with httpx.Client(base_url=stack.airflow_url, timeout=60, trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {http.post('/auth/token', json=login).json()['access_token']}"
        yield http


def test_a_whole_stack_has_nothing_broken(stack: Stack) -> None:
    with stack.client() as client:
        stack.await_dag(client, "nightly_retraining__flight-delay")
    exit_code, checks = doctor(stack)
    assert [each for each in checks.values() if each["state"] == "broken"] == []
    assert exit_code == Exit.DONE
    told = {name: check["state"] for name, check in checks.items()}
    wanted = ("airflow/scheduler", "airflow/dag_processor", "airflow/triggerer", f"airflow/pool/{POOL}", "mlflow")
    assert {told[name] for name in (*wanted, "airflow/pool/gpu_backfill", "data/flight-delay", "dry-run")} == {"ok"}


def test_a_triggerer_that_died_is_told(stack: Stack) -> None:
    stack.service(TRIGGERER).kill()
    with stack.client() as client:
        wait_until(lambda: client.health()["triggerer"] != "healthy", "Airflow has noticed that its triggerer is gone")
    exit_code, checks = doctor(stack)
    assert (exit_code, checks["airflow/triggerer"]["state"]) == (Exit.FAILED, "broken")
    assert checks["airflow/scheduler"]["state"] == "ok"


@pytest.mark.parametrize(
    ("change", "state", "said"),
    [
        ({"include_deferred": False}, "warning", "does not count deferred tasks"),
        ({"slots": 0}, "broken", "has no slots"),
    ],
)
def test_a_pool_that_lets_nobody_in_or_counts_nobody_who_waits_is_told(
    stack: Stack, change: dict[str, Any], state: str, said: str
) -> None:
    path = f"/api/v2/pools/{POOL}"
    with airflow_api(stack) as http:
        before = http.get(path).json()
        body = {name: before[name] for name in ("slots", "description", "include_deferred")} | {"pool": POOL}
        http.patch(path, json=body | change).raise_for_status()
        try:
            exit_code, checks = doctor(stack)
        finally:
            http.patch(path, json=body).raise_for_status()
    assert checks[f"airflow/pool/{POOL}"]["state"] == state
    assert said in checks[f"airflow/pool/{POOL}"]["said"]
    assert exit_code == (Exit.FAILED if state == "broken" else Exit.DONE)
