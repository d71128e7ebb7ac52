"""What nodes of kind `containerd` are made of, as far as it needs neither root nor containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.containerd import cgroups, kubelet
from sandbox.containerd.device_api import AllocateResponse, ListAndWatchResponse, RegisterRequest
from sandbox.containerd.node import ContainerdNode
from sandbox.errors import SandboxError
from sandbox.lifecycle import NodeLifecycle

pytestmark = pytest.mark.unit


def hierarchies(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "cgroup.procs").write_text("")
    return root


def test_machine_without_the_control_groups_is_told_which_are_missing(tmp_path: Path) -> None:
    assert cgroups.obstacle(hierarchies(tmp_path / "1", *cgroups.NEEDED, "unified")) is None
    missing = cgroups.obstacle(hierarchies(tmp_path / "2", "cpu", "cpuacct", "devices", "freezer"))
    assert missing is not None
    assert "no control groups for memory, pids" in missing
    for number, (controllers, word) in enumerate({"cpu io memory pids": None, "cpu pids": "for memory"}.items()):
        mount = tmp_path / f"unified{number}"
        mount.mkdir()
        (mount / "cgroup.controllers").write_text(controllers)
        why = cgroups.obstacle(mount)
        assert why is None if word is None else word in str(why)


def test_folder_has_one_group_and_no_other_folder_has_it() -> None:
    one, other = (cgroups.group_of(Path("/state") / name / "nodes" / "gpu-1") for name in ("a", "b"))
    assert one == cgroups.group_of(Path("/state/a/nodes/gpu-1"))
    assert one != other


def test_end_of_a_group_that_is_not_there_is_no_harm(tmp_path: Path) -> None:
    cgroups.remove_group("gpu-training-0", hierarchies(tmp_path, "memory"))
    cgroups.remove_group("gpu-training-0", tmp_path / "no-control-groups")


def test_missing_programs_are_told_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "as root" in str(ContainerdNode().obstacle())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("sandbox.containerd.node.SEARCH", "/nowhere")
    assert "apt-get install containerd crun debootstrap" in str(ContainerdNode().obstacle())


def test_kubelet_is_of_the_cluster_s_version_or_refused() -> None:
    assert {minor: source.version.rpartition(".")[0] for minor, source in kubelet.KUBELETS.items()} == {
        minor: f"v{minor}" for minor in kubelet.KUBELETS
    }
    with pytest.raises(SandboxError, match=r"kubelet of Kubernetes 1\.2 is not pinned"):
        kubelet.source("1.2")


def test_what_a_request_leaves_of_the_machine_is_reserved() -> None:
    assert kubelet.reserved(cpu="1000", memory="1Pi") == {}
    left = kubelet.reserved(cpu="500m", memory="1Mi")
    assert left["cpu"] == f"{(os.cpu_count() or 1) * 1000 - 500}m"
    assert int(left["memory"]) > 0


def test_configuration_follows_the_cluster_s_times_and_the_request_s_changes() -> None:
    made = kubelet.configuration(
        port=1,
        address="192.0.2.7",
        lifecycle=NodeLifecycle(lease_s=4, status_s=1, monitor_grace_s=5),
        taints=("nvidia.com/gpu=true:NoSchedule",),
        reserved={},
        changes={"containerLogMaxSize": "64Ki"},
    )
    assert (made["nodeLeaseDurationSeconds"], made["nodeStatusUpdateFrequency"]) == (4, "1s")
    assert made["registerWithTaints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    assert made["containerLogMaxSize"] == "64Ki"


def test_messages_to_the_kubelet_are_encoded_as_its_interface_has_them() -> None:
    register = RegisterRequest(version="v1beta1", endpoint="e", resource_name="r")
    assert register.SerializeToString() == b"\n\x07v1beta1\x12\x01e\x1a\x01r"
    devices = ListAndWatchResponse(devices=[{"ID": "x", "health": "Healthy"}])
    assert devices.SerializeToString() == b"\n\x0c\n\x01x\x12\x07Healthy"
    assert (
        AllocateResponse(container_responses=[{"envs": {"a": "b"}}]).SerializeToString()
        == b"\n\x08\n\x06\n\x01a\x12\x01b"
    )
