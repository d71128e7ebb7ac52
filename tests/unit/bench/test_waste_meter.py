"""GPU-seconds that pods held, from their documents alone."""

from __future__ import annotations

from typing import Any

import pytest

from bench.waste.meter import Hold, Meter, gpu_seconds
from bench.waste.rows import LABEL

pytestmark = pytest.mark.unit

SCENARIO = "hang.ours"


def pod(
    uid: str = "u1", *, node: str | None = "bench", phase: str = "Pending", gpus: tuple[str, ...] = ("1",)
) -> dict[str, Any]:
    containers = [{"name": f"c{n}", "resources": {"limits": {"nvidia.com/gpu": gpu}}} for n, gpu in enumerate(gpus)]
    spec = {"containers": [*containers, {"name": "sidecar"}], **({"nodeName": node} if node else {})}
    metadata = {"name": f"pod-{uid}", "uid": uid, "labels": {LABEL: SCENARIO}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def held(meter: Meter, until: float) -> float:
    return gpu_seconds(meter.holds(SCENARIO), until)


def test_a_pod_holds_its_gpus_from_its_node_to_its_end() -> None:
    meter = Meter()
    meter.see(pod(node=None), 10)
    meter.see(pod(), 20)
    meter.see(pod(phase="Running"), 21)
    assert meter.is_held(SCENARIO)
    meter.see(pod(phase="Succeeded"), 50)
    assert not meter.is_held(SCENARIO)
    assert meter.holds(SCENARIO) == [Hold(pod="pod-u1", gpus=1, since=20, until=50)]
    assert held(meter, 100) == 30


@pytest.mark.parametrize(
    ("document", "gpus"),
    [
        pytest.param(pod(gpus=("2",)), 2, id="two in a container"),
        pytest.param(pod(gpus=("1", "3")), 4, id="in two containers"),
    ],
)
def test_all_gpus_of_a_pod_count(document: dict[str, Any], gpus: int) -> None:
    meter = Meter()
    meter.see(document, 0)
    assert held(meter, 10) == 10 * gpus


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(pod(node=None), id="without a node"),
        pytest.param(pod(gpus=()), id="without a GPU"),
        pytest.param({**pod(), "metadata": {"name": "p", "uid": "u"}}, id="of no scenario"),
    ],
)
def test_a_pod_holds_nothing(document: dict[str, Any]) -> None:
    meter = Meter()
    meter.see(document, 0)
    assert meter.holds(SCENARIO) == []
    assert not meter.is_held(SCENARIO)


def test_the_end_of_a_hold_is_the_first_one_that_was_seen() -> None:
    meter = Meter()
    meter.see(pod(), 0)
    meter.see(pod(phase="Failed"), 5)
    meter.see(pod(phase="Failed"), 7, gone=True)
    meter.forget_absent(set(), 9)
    assert held(meter, 100) == 5


@pytest.mark.parametrize("gone_by", ["event", "list"])
def test_a_pod_that_is_gone_holds_nothing_any_more(gone_by: str) -> None:
    meter = Meter()
    meter.see(pod("u1", phase="Running"), 0)
    meter.see(pod("u2", phase="Running"), 1)
    if gone_by == "event":
        meter.see(pod("u1", phase="Running"), 4, gone=True)
    else:
        meter.forget_absent({"u2"}, 4)
    assert [hold.until for hold in meter.holds(SCENARIO)] == [4, None]


def test_two_pods_at_once_hold_twice_as_much() -> None:
    meter = Meter()
    meter.see(pod("u1"), 0)
    meter.see(pod("u2"), 5)
    assert held(meter, 10) == 15


def test_what_comes_after_the_moment_does_not_count() -> None:
    hold = Hold(pod="p", gpus=2, since=10, until=30)
    assert [hold.gpu_seconds(until) for until in (5, 20, 40)] == [0, 20, 40]
