"""What lasts: a Job controller that is away for a minute, and a clock that jumps by hours."""

from __future__ import annotations

import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.cluster.trainings import SUCCEED, TaskInstance, defer, fire, is_running, ledger_of, operator, pods_of, spec
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.faults.programs import start_program, stop_program
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

CONTROLLERS = "kube-controller-manager"
MINUTE_S = 60.0


def waits_for(path: Path) -> str:
    """Give a script that succeeds once a file is there."""
    path.parent.chmod(0o777)
    return f"until [ -e {path} ]; do sleep 0.1; done; {SUCCEED}"


def test_a_training_that_ends_while_the_job_controller_is_away_for_a_minute_is_waited_for(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    payloads: list[dict[str, Any]] = []
    trigger = defer(operator(spec(namespace, waits_for(go), deadline_seconds=600)), TaskInstance())
    wait_for(lambda: is_running(sandbox, namespace), 60, "a running container")
    waiting = Thread(target=lambda: payloads.append(fire(trigger, limit=240)))
    waiting.start()
    stop_program(sandbox, CONTROLLERS)
    try:
        away_since = time.monotonic()
        go.touch()
        wait_for(lambda: pods_of(sandbox, namespace)[0]["status"]["phase"] == "Succeeded", 60, "the pod's end")
        wait_for(lambda: time.monotonic() > away_since + MINUTE_S, 90, "a minute without Job controller")
        assert payloads == []
    finally:
        start_program(sandbox, CONTROLLERS)
    waiting.join()

    assert payloads[0]["kind"] == "succeeded"
    assert len(pods_of(sandbox, namespace)) == 1


@pytest.mark.parametrize("jump_s", [3 * 3600.0, -3 * 3600.0], ids=["forward", "back"])
def test_a_clock_that_jumps_ends_no_training_and_spends_no_budget(
    sandbox: Sandbox,
    namespace: str,
    connected: FakeMlflow,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jump_s: float,
) -> None:
    go, now = tmp_path / "go", time.time
    budget = {"gpu_seconds": 600, "wall_seconds": 600}
    training = spec(namespace, waits_for(go), deadline_seconds=300, budget=budget)
    payloads: list[dict[str, Any]] = []
    instance = TaskInstance()
    trigger = defer(operator(training), instance)
    waiting = Thread(target=lambda: payloads.append(fire(trigger)))
    waiting.start()
    wait_for(lambda: is_running(sandbox, namespace), 60, "a running container")
    monkeypatch.setattr(time, "time", lambda: now() + jump_s)
    wait_for(lambda: ledger_of(sandbox, namespace)["jobs"][0]["attempts"], 60, "an attempt in the ledger")
    go.touch()
    waiting.join()

    result = operator(training).execute_complete(instance.context, payloads[0])
    (job,) = ledger_of(sandbox, namespace)["jobs"]
    assert result["attempts"] == 1
    assert 0 <= result["gpu_seconds"] < 120
    assert job["unseen_gpu_seconds"] < 10
    assert 0 <= job["ended_at"] - job["created_at"] < 120
