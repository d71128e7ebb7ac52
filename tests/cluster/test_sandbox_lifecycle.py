"""The sandbox goes up, tells how it stands, and leaves nothing, whatever kills it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.binaries import find_binaries
from sandbox.cluster import Sandbox, clean
from sandbox.control_plane import HOST, Credentials, Ports
from sandbox.errors import SandboxError
from sandbox.nodes import NodeRequest
from sandbox.processes import Process, descendants, is_alive, snapshot
from sandbox.startup import start_control_plane
from sandbox.supervisor import Supervisor
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

INCLUDE = str(Path(sys.modules["sandbox"].__path__[0]).parent)
OWNER = """
import os, pathlib, sys, time
from sandbox.cluster import Sandbox
sandbox = Sandbox.up(pathlib.Path(sys.argv[1]), nodes=(), owner_pid=os.getpid())
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    yield folder
    clean(folder)


def everything_of(sandbox: Sandbox) -> list[Process]:
    running = snapshot()
    return [running[sandbox.supervisor.pid], *descendants(sandbox.supervisor.pid, running)]


def still_running(processes: list[Process]) -> list[Process]:
    return [process for process in processes if is_alive(process.pid, process.start)]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": INCLUDE}
    return subprocess.run(
        [sys.executable, "-m", "sandbox", *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_up_gives_a_ready_node_with_label_taint_and_capacity(sandbox: Sandbox) -> None:
    node = sandbox.api.request("GET", "/api/v1/nodes/gpu-1")
    assert node["metadata"]["labels"]["workload"] == "gpu-training"
    assert {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "1"
    assert [(line.name, line.ready, line.gpus) for line in sandbox.status().nodes] == [("gpu-1", True, 1)]


def test_up_again_gives_the_same_cluster(sandbox: Sandbox) -> None:
    assert Sandbox.up(sandbox.folder).api_url == sandbox.api_url


def test_down_leaves_no_process_and_no_file(folder: Path) -> None:
    sandbox = Sandbox.up(folder, owner_pid=os.getpid())
    processes = everything_of(sandbox)
    assert len(processes) > 5
    sandbox.down()
    assert still_running(processes) == []
    assert not folder.exists()
    assert Sandbox.attach(folder) is None


def test_two_folders_have_two_clusters_and_one_ends_with_its_owner_even_one_killed(
    sandbox: Sandbox, folder: Path
) -> None:
    environment = os.environ | {"PYTHONPATH": INCLUDE}
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, env=environment)
    assert owner.stdout is not None
    owner.stdout.readline()
    other = Sandbox.attach(folder)
    assert other is not None
    assert other.api_url != sandbox.api_url
    other.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": "only-here"}})
    assert not sandbox.api.exists("/api/v1/namespaces/only-here")
    processes = everything_of(other)
    owner.kill()
    owner.communicate()
    wait_for(lambda: not still_running(processes), 30, "the end of what a killed owner had started")
    assert sandbox.api.is_ready()


def test_status_is_told_as_json_and_in_words(sandbox: Sandbox) -> None:
    told = command("status", "--state", str(sandbox.folder), "--json")
    status = json.loads(told.stdout)
    assert told.returncode == 0
    assert status["ready"] is True
    assert status["api_url"] == sandbox.api_url
    assert status["versions"]["kubernetes"] == sandbox.api.request("GET", "/version")["gitVersion"]
    assert {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "node-gpu-1"} == {
        process["name"] for process in status["processes"]
    }
    assert all(process["alive"] and process["memory_mib"] > 0 for process in status["processes"])
    assert [node["name"] for node in status["nodes"]] == ["gpu-1"]
    assert f"{sandbox.api_url} ready" in command("status", "--state", str(sandbox.folder)).stdout


def test_status_and_down_of_nothing_are_no_crash(tmp_path: Path) -> None:
    told = command("status", "--state", str(tmp_path / "none"))
    assert told.returncode == 1
    assert "no sandbox runs in" in told.stdout
    assert command("down", "--state", str(tmp_path / "none")).returncode == 0


def test_a_folder_with_other_things_in_it_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    for act in ("up", "down"):
        told = command(act, "--state", str(tmp_path))
        assert told.returncode == 1
        assert "thesis.txt, which is no sandbox's" in told.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_ports_lost_to_another_program_are_replaced(folder: Path) -> None:
    with socket.create_server((HOST, 0)) as squatter:
        taken = squatter.getsockname()[1]
        attempts = iter([replace(Ports.free(), api=taken), replace(Ports.free(), etcd=taken), last := Ports.free()])
        credentials = Credentials(folder / "certificates")
        credentials.create()
        supervisor = Supervisor.start(folder, owner_pid=os.getpid())
        ports = start_control_plane(
            folder, find_binaries(print), supervisor, credentials, find_ports=lambda: next(attempts)
        )
        assert ports == last


def test_a_program_that_does_not_start_is_named_with_the_end_of_its_log(folder: Path) -> None:
    credentials = Credentials(folder / "certificates")
    credentials.create()
    broken = folder / "nodes" / "etcd"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho the disk is on fire\nexit 3\n")
    broken.chmod(0o755)
    supervisor = Supervisor.start(folder, owner_pid=os.getpid())
    with pytest.raises(SandboxError, match=r"etcd ended with exit code 3, the end of (.|\n)*the disk is on fire"):
        start_control_plane(folder, find_binaries(print) | {"etcd": broken}, supervisor, credentials)


def test_a_node_comes_and_goes(sandbox: Sandbox) -> None:
    sandbox.add_node(NodeRequest(name="gpu-2", gpus=4))
    assert ("gpu-2", True, 4) in [(line.name, line.ready, line.gpus) for line in sandbox.status().nodes]
    sandbox.remove_node("gpu-2")
    assert [line.name for line in sandbox.status().nodes] == ["gpu-1"]
    with pytest.raises(SandboxError, match="no node is named 'gpu-2'"):
        sandbox.remove_node("gpu-2")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "GPU_1"}, "node name 'GPU_1': lower case letters"),
        ({"gpus": -1}, "gpus of node gpu-1 is -1: give a whole number from 0 up"),
        ({"gpus": 0.5}, "gpus of node gpu-1 is 0.5"),
        ({"kind": "quantum"}, "kind of node gpu-1 is 'quantum': known are process"),
    ],
)
def test_a_node_that_can_not_be_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        NodeRequest(**fields)  # type: ignore[arg-type]
