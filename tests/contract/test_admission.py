"""What a node refuses that the scheduler was not asked about, or asked about too early."""

from __future__ import annotations

import secrets
from typing import Any

from tests.contract.pods import MERGE_PATCH, Document, Pods

GPU = "nvidia.com/gpu"
OTHER = "example.com/accelerator"


def asking(resource: str, count: int) -> Document:
    return {"resources": {"limits": {resource: str(count)}}}


def assert_refused(pods: Pods, name: str, reason: str, message: str) -> None:
    pod = pods.ended(name)
    assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", reason)
    assert pod["status"]["message"] == f"Pod was rejected: {message}"
    assert "containerStatuses" not in pod["status"]
    assert not pod["status"].get("conditions")
    assert pods.wait_for_event(name, reason, message)["type"] == "Warning"


def test_node_refuses_what_does_not_fit_it(pods: Pods) -> None:
    amounts = {part: {OTHER: "1"} for part in ("capacity", "allocatable")}
    pods.api.request("PATCH", f"{pods.node.path}/status", {"status": amounts}, content_type=MERGE_PATCH)
    cases: tuple[tuple[dict[str, Any], str, str], ...] = (
        (
            {"container": asking(OTHER, 3)},
            f"OutOf{OTHER}",
            f"Node didn't have enough resource: {OTHER}, requested: 3, used: 0, capacity: 1",
        ),
        (
            {"nodeSelector": {"zone": "nowhere"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"container": asking(GPU, 3)},
            "UnexpectedAdmissionError",
            f"Allocate failed due to requested number of devices unavailable for {GPU}. "
            "Requested: 3, Available: 2, which is unexpected",
        ),
    )
    names = [pods.create(nodeName=pods.node.name, **spec) for spec, *_ in cases]
    for name, (_, reason, message) in zip(names, cases, strict=True):
        assert_refused(pods, name, reason, message)


def test_devices_of_a_pod_that_runs_are_not_given_twice(pods: Pods) -> None:
    first = pods.create("trap 'exit 0' TERM; while :; do sleep 0.1; done", container=asking(GPU, 1))
    pods.running(first)
    second = pods.create(nodeName=pods.node.name, container=asking(GPU, 2))
    shortage = f"requested number of devices unavailable for {GPU}. Requested: 2, Available: 1"
    assert_refused(pods, second, "UnexpectedAdmissionError", f"Allocate failed due to {shortage}, which is unexpected")
    pods.delete(first)
    pods.gone(first)
    assert pods.ended(pods.create(container=asking(GPU, 2)))["status"]["phase"] == "Succeeded"


def test_node_whose_device_plugin_has_ended_refuses_a_pod_that_was_bound_to_it(pods: Pods) -> None:
    running = pods.create("trap 'exit 0' TERM; while :; do sleep 0.1; done", container=asking(GPU, 1))
    pods.running(running)
    with pods.node.without_device_plugin():
        name = pods.create(nodeName=pods.node.name, container=asking(GPU, 1))
        fault = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
        assert_refused(pods, name, "UnexpectedAdmissionError", f"Allocate failed due to {fault}, which is unexpected")
        status = pods.api.request("GET", pods.node.path)["status"]
        assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("2", "0")
        # Who has a device keeps it.
        assert pods.get(running)["status"]["phase"] == "Running"
    assert pods.ended(pods.create(container=asking(GPU, 1)))["status"]["phase"] == "Succeeded"
    pods.delete(running)


def test_pod_follows_a_label_that_the_node_got_a_moment_ago(pods: Pods) -> None:
    zone = secrets.token_hex(4)
    pods.api.request("PATCH", pods.node.path, {"metadata": {"labels": {"zone": zone}}}, content_type=MERGE_PATCH)
    pod = pods.ended(pods.create(nodeName=pods.node.name, nodeSelector={"zone": zone}))
    assert pod["status"]["phase"] == "Succeeded"
