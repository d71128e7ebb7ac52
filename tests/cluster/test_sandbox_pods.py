"""Through the whole cluster: a Job runs on a GPU node, its output is read, and nothing of it outlives its node."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.pod_documents import gpu_pod, job_of

from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest
from sandbox.processes import descendants, is_alive, read_process, snapshot
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0


def job(script: str) -> Document:
    """Give a Job that only a GPU node can run."""
    pod = gpu_pod(script, nodeSelector={"workload": "gpu-training"})
    return {"metadata": {"name": "training"}, "spec": job_of(pod)}


def condition_of(sandbox: Sandbox, path: str) -> Callable[[], str | None]:
    """Give a look-up of the condition that ends a Job."""

    def look() -> str | None:
        conditions: list[dict[str, Any]] = sandbox.api.request("GET", path)["status"].get("conditions", [])
        met = [each["type"] for each in conditions if each["status"] == "True"]
        return next((each for each in met if each in ("Complete", "Failed")), None)

    return look


@pytest.mark.parametrize(
    ("script", "end", "phase", "exit_code"),
    [("echo step 1; echo step 2", "Complete", "Succeeded", 0), ("echo step 1; exit 7", "Failed", "Failed", 7)],
)
def test_a_job_runs_to_its_end_on_the_gpu_node(
    sandbox: Sandbox, namespace: str, script: str, end: str, phase: str, exit_code: int
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    sandbox.api.request("POST", jobs, job(script))
    assert wait_for(condition_of(sandbox, f"{jobs}/training"), DEADLINE_S, "the Job's end") == end
    pods = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert [(pod["status"]["phase"], pod["spec"]["nodeName"]) for pod in pods] == [(phase, "gpu-1")]
    assert pods[0]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == exit_code
    log = sandbox.api.request("GET", f"/api/v1/namespaces/{namespace}/pods/{pods[0]['metadata']['name']}/log")
    assert log.splitlines()[0] == "step 1"


def test_pods_of_a_removed_node_end_with_it(sandbox: Sandbox, namespace: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    filler = job("sleep 600")
    filler["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "2"
    sandbox.add_node(NodeRequest(name="gpu-2", gpus=2))
    sandbox.api.request("POST", jobs, filler)

    def is_running() -> bool:
        return [pod["status"]["phase"] for pod in sandbox.api.request("GET", pods)["items"]] == ["Running"]

    wait_for(is_running, DEADLINE_S, "the pod to run on gpu-2")
    sandbox.remove_node("gpu-2")

    def nodes_of_pods() -> list[str | None]:
        return [pod["spec"].get("nodeName") for pod in sandbox.api.request("GET", pods)["items"]]

    wait_for(lambda: "gpu-2" not in nodes_of_pods(), DEADLINE_S, "the pod of gpu-2 to be gone")


def test_a_killed_sandbox_and_its_containers_are_ended_by_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    killed = Sandbox.up(folder, owner_pid=os.getpid())
    pod = job("exec sleep 600")["spec"]["template"]
    killed.api.request("POST", "/api/v1/namespaces/gpu-training/pods", pod | {"metadata": {"name": "training"}})
    wait_for(lambda: "Running" in [line.phase for line in killed.status().pods], DEADLINE_S, "the pod to run")
    running = snapshot()
    processes = [running[killed.supervisor.pid], *descendants(killed.supervisor.pid, running)]
    containers = [each for each in processes if read_arguments(each.pid) == ["sleep", "600"]]
    assert len(containers) == 1
    os.kill(killed.supervisor.pid, signal.SIGKILL)
    wait_for(lambda: read_process(killed.supervisor.pid) is None, 10, "the end of the supervisor")
    assert Sandbox.attach(folder) is None
    fresh = Sandbox.up(folder, nodes=(), owner_pid=os.getpid())
    assert [each for each in processes if is_alive(each.pid, each.start)] == []
    assert fresh.status().pods == ()
    fresh.down()


def read_arguments(pid: int) -> list[str]:
    return (Path("/proc") / str(pid) / "cmdline").read_text().split("\0")[:-1]
