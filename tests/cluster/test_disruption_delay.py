"""Disruptions cost no attempt; the Job controller lets more time pass after each, and the log says until when."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.cluster.trainings import (
    SUCCEED,
    TaskInstance,
    defer,
    fire,
    is_running,
    jobs_of,
    operator,
    pods_of,
    recorded,
    spec,
)
from tests.fake_mlflow import FakeMlflow

from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

DELAYS_S = (10, 20)


def evict(sandbox: Sandbox, namespace: str) -> None:
    """Evict the one pod that runs, through the eviction API."""
    (name,) = (pod["metadata"]["name"] for pod in pods_of(sandbox, namespace) if pod["status"]["phase"] == "Running")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)


@pytest.mark.case("C025")
@pytest.mark.case("C027")
def test_evictions_spend_no_attempt_and_the_log_says_when_the_next_pod_is_due(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    count = f"n=$(ls {tmp_path} | wc -l); touch {tmp_path}/$n"
    runs_on = f"test $n -ge {len(DELAYS_S)} || {{ trap 'exit 85' TERM; sleep 600 & wait; }}"
    task = operator(spec(namespace, f"{count}; {runs_on}; {SUCCEED}"), retries=0)
    trigger = recorded(defer(task, TaskInstance()))
    payloads: list[dict[str, Any]] = []
    waiting = Thread(target=lambda: payloads.append(fire(trigger)))
    waiting.start()
    for number, delay_s in enumerate(DELAYS_S):
        begun = tmp_path / str(number)
        wait_for(lambda begun=begun: begun.exists() and is_running(sandbox, namespace), 60, "a pod that runs")  # type: ignore[misc]
        evict(sandbox, namespace)
        said = f"{delay_s} s after the last one ended"
        wait_for(lambda said=said: trigger.record.about(said), 30, said)  # type: ignore[misc]
    waiting.join()

    assert payloads[0]["kind"] == "succeeded"
    assert len(payloads[0]["attempts"]) == len(DELAYS_S) + 1
    assert [line for line in trigger.record.about("the next pod is due at") if not line.startswith("retrying: ")] == []
    (job,) = jobs_of(sandbox, namespace)
    assert not job["status"].get("failed")
