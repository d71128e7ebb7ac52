"""The Node says of itself what it was told to be; and the log end point answers in the kubelet's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.agent.config import AgentConfig
from sandbox.agent.launching import find_unsupported
from sandbox.agent.node import build_node, capacity
from sandbox.agent.server import find_log_refusal
from sandbox.agent.states import ContainerView, Running, State, Terminated, Waiting
from sandbox.agent.status import format_time

pytestmark = pytest.mark.unit

NOW = 1_800_000_000 * 10**9
PATHS = dict.fromkeys(
    ("ca_file", "client_cert", "client_key", "serving_cert", "serving_key", "client_ca_file", "root", "images"),
    Path("/x"),
)


def config(**changes: object) -> AgentConfig:
    values = {
        "node_name": "gpu-1",
        "api_url": "https://127.0.0.1:1",
        "gpus": 2,
        "labels": {"workload": "gpu-training"},
        "taints": ("nvidia.com/gpu=true:NoSchedule",),
        **PATHS,
        **changes,
    }
    return AgentConfig(**values)  # type: ignore[arg-type]


def test_node_has_its_resources_labels_taints_and_log_port() -> None:
    node = build_node(config(), port=10250, version="v1.37.2", before=[], now_ns=NOW)
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "2"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "gpu-1"
    assert node["metadata"]["labels"]["workload"] == "gpu-training"
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    assert node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.37.2"


def test_node_without_gpus_has_no_such_resource() -> None:
    assert "nvidia.com/gpu" not in capacity(config(gpus=0))


def test_condition_that_stays_keeps_its_transition_time_and_one_that_was_unknown_does_not() -> None:
    before = [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
    ]
    node = build_node(config(), port=1, version="v", before=before, now_ns=NOW)
    times = {one["type"]: one["lastTransitionTime"] for one in node["status"]["conditions"]}
    assert times["Ready"] == format_time(NOW)
    assert times["DiskPressure"] == "2020-01-01T00:00:00Z"


ENDED = Terminated(exit_code=1, reason="Error", container_id="process://1")
NEVER_RAN = Terminated(exit_code=137, reason="ContainerStatusUnknown")


@pytest.mark.parametrize(
    ("state", "last", "previous", "words"),
    [
        (Running(started_ns=0), None, False, None),
        (Running(started_ns=0), None, True, 'previous terminated container "c" in pod "p" not found'),
        (Running(started_ns=0), ENDED, True, None),
        (ENDED, None, False, None),
        (NEVER_RAN, None, False, 'container "c" in pod "p" is terminated'),
        (Waiting(reason="CrashLoopBackOff"), ENDED, False, None),
        (
            Waiting(reason="ContainerCreating"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        ),
        (
            Waiting(reason="ErrImagePull"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: image can\'t be pulled',
        ),
        (
            Waiting(reason="ImagePullBackOff"),
            None,
            False,
            'container "c" in pod "p" is waiting to start: trying and failing to pull image',
        ),
    ],
)
def test_log_that_can_not_be_read_is_refused_in_the_kubelet_s_words(
    state: State, last: Terminated | None, previous: bool, words: str | None
) -> None:
    view = ContainerView(name="c", image="i", state=state, last=last)
    assert find_log_refusal(view, "p", previous=previous) == words


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"livenessProbe": {}}, None),
        ({"livenessProbe": {"grpc": {"port": 1}}}, "livenessProbe: nodes of kind process ask no gRPC service"),
        ({"lifecycle": {"preStop": {}}}, "lifecycle: nodes of kind process have no hooks"),
        ({"restartPolicy": "Always"}, "so no sidecars"),
        ({}, None),
    ],
)
def test_what_would_silently_not_happen_is_refused(container: dict[str, object], words: str | None) -> None:
    refusal = find_unsupported(container)
    assert refusal is None if words is None else words in (refusal or "")
