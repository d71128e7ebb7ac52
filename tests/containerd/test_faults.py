"""Faults of a node with real containers, and what is left when it is gone: nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.containerd.restricted import RestrictedPods
from tests.contract.pods import status_of

from sandbox.cluster import Sandbox
from sandbox.containerd.cgroups import MOUNT, group_of
from sandbox.disposal import clean
from sandbox.errors import SandboxError
from sandbox.faults.nodes import drop_gpus, lose_node, press_node, restore_gpus, return_node
from sandbox.faults.pods import refuse_image
from sandbox.lifecycle import SHORT
from sandbox.nodes import NodeRequest
from sandbox.processes import snapshot
from sandbox.testing import CONTAINERS
from sandbox.waiting import wait_for

pytestmark = pytest.mark.containerd

DEADLINE_S = 60.0


def groups_of(folder: Path, node: str) -> list[Path]:
    return list(MOUNT.glob(f"**/{group_of(folder / 'nodes' / node)}"))


def programs_of(folder: Path) -> list[str]:
    """Give what runs that has the folder's mark or is a container runtime's of its."""
    mark = f"GPU_TRAINING_STATE={folder}".encode()
    found = []
    for pid in snapshot():
        try:
            environment, command = (Path(f"/proc/{pid}/{file}").read_bytes() for file in ("environ", "cmdline"))
        except OSError:
            continue
        if mark in environment.split(b"\0"):
            found.append(command.decode(errors="replace"))
    return found


def test_without_its_device_plugin_a_node_has_no_gpu_to_give(sandbox: Sandbox, pods: RestrictedPods) -> None:
    node = pods.node.name
    drop_gpus(sandbox, node)
    gpu = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
    name = pods.create("echo $NVIDIA_VISIBLE_DEVICES", container=gpu)
    pending = pods.wait(name, lambda pod: pod["status"].get("conditions"))
    assert "Insufficient nvidia.com/gpu" in pending["status"]["conditions"][0]["message"]
    restore_gpus(sandbox, node)
    pods.ended(name)
    assert pods.log(name) == "void\n"


def test_machine_that_was_off_comes_back_without_what_ran_on_it(sandbox: Sandbox, pods: RestrictedPods) -> None:
    node = pods.node.name
    name = pods.create("echo a run; trap 'exit 0' TERM; sleep 600 & wait", restartPolicy="Always")
    pods.running(name)
    lose_node(sandbox, node, power=True)
    assert groups_of(sandbox.folder, node) == []
    return_node(sandbox, node)
    pods.wait(name, lambda pod: "running" in status_of(pod)["state"] and status_of(pod)["restartCount"] == 1)


def test_orders_that_only_our_own_agent_takes_are_refused_in_words(sandbox: Sandbox, pods: RestrictedPods) -> None:
    with pytest.raises(SandboxError, match="not of kind process"):
        press_node(sandbox, pods.node.name)
    with pytest.raises(SandboxError, match="not of kind process"):
        refuse_image(sandbox, pods.node.name, "sandbox-shell")


def test_nothing_is_left_of_a_sandbox_whose_supervisor_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / ("a-folder-whose-path-is-longer-than-a-socket-s-may-be-" * 2) / "sandbox"
    before = Path("/proc/self/mountinfo").read_text()
    request = NodeRequest(name="real", kind="containerd", labels={"workload": CONTAINERS}, cpu="1", memory="1Gi")
    sandbox = Sandbox.up(folder, nodes=[request], lifecycle=SHORT, owner_pid=os.getpid())
    status = sandbox.api.request("GET", "/api/v1/nodes/real")["status"]
    assert {key: status["allocatable"][key] for key in ("cpu", "memory", "nvidia.com/gpu")} == {
        "cpu": "1",
        "memory": "1Gi",
        "nvidia.com/gpu": "1",
    }
    container = {"name": "main", "image": "sandbox-shell:1", "command": ["sleep", "600"]}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]}}
    path = "/api/v1/namespaces/default/pods"
    sandbox.api.request("POST", path, pod)
    wait_for(lambda: sandbox.api.request("GET", f"{path}/p")["status"]["phase"] == "Running", DEADLINE_S, "the pod")
    assert groups_of(folder, "real")

    os.kill(sandbox.supervisor.pid, signal.SIGKILL)
    clean(folder)
    assert programs_of(folder) == []
    assert groups_of(folder, "real") == []
    assert Path("/proc/self/mountinfo").read_text() == before
    assert not folder.exists()
