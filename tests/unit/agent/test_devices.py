"""Devices that a plugin serves are short in the device manager's words."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.agent.admission import find_refusal
from sandbox.agent.devices import find_device_refusal

pytestmark = pytest.mark.unit

GPU = "nvidia.com/gpu"


def node(capacity: int, allocatable: int) -> dict[str, Any]:
    amounts = {"capacity": {GPU: str(capacity)}, "allocatable": {GPU: str(allocatable)}}
    return {"metadata": {"name": "gpu-1"}, "spec": {}, "status": amounts}


def pod(*gpus: int, init: tuple[int, ...] = ()) -> dict[str, Any]:
    def containers(counts: tuple[int, ...]) -> list[dict[str, Any]]:
        return [{"resources": {"limits": {GPU: str(n)}, "requests": {GPU: str(n)}} if n else {}} for n in counts]

    return {"spec": {"containers": containers(gpus), "initContainers": containers(init)}}


@pytest.mark.parametrize(
    ("new", "others", "requested", "available"),
    [
        (pod(3), [], 3, 2),
        (pod(2), [pod(1)], 2, 1),
        (pod(1, 2), [], 2, 1),
        (pod(1, init=(3,)), [], 3, 2),
        (pod(1, 1, 1, init=(2,)), [], 1, 0),
        (pod(1), [pod(0, init=(2,))], 1, 0),
    ],
)
def test_what_is_short_is_told_with_the_numbers_of_the_container(
    new: dict[str, Any], others: list[dict[str, Any]], requested: int, available: int
) -> None:
    fault = find_device_refusal(new, node(2, 2), GPU, others)
    words = f"Requested: {requested}, Available: {available}"
    assert fault == f"requested number of devices unavailable for {GPU}. {words}"


@pytest.mark.parametrize("new", [pod(0), pod(2), pod(1, 1, init=(2, 1)), pod(2, init=(1,))])
def test_what_fits_is_given_and_init_containers_hand_theirs_on(new: dict[str, Any]) -> None:
    assert find_device_refusal(new, node(2, 2), GPU, []) is None


def test_plugin_that_has_ended_serves_nobody_and_one_that_is_forgotten_is_no_device_any_more() -> None:
    fault = f"no healthy devices present; cannot allocate unhealthy devices {GPU}"
    refusal = find_refusal(pod(1), node(2, 0), [], plugin_resource=GPU)
    assert refusal == ("UnexpectedAdmissionError", f"Allocate failed due to {fault}, which is unexpected")
    assert find_refusal(pod(0), node(2, 0), [], plugin_resource=GPU) is None
    for plugin_resource, found in ((GPU, node(0, 0)), (None, node(2, 0))):
        refusal = find_refusal(pod(1), found, [], plugin_resource=plugin_resource)
        assert refusal is not None
        assert refusal[0] == f"OutOf{GPU}"
