"""What is counted as GPU-seconds and as live Jobs, and what a cell's verdict makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.stack.faults.gpu_meter import Tally
from tests.stack.faults.matrix import cell_named, choose
from tests.stack.faults.verdicts import Figures, faults_of

pytestmark = pytest.mark.unit


def pod(phase: str, *, node: str | None = "gpu-1", gpus: int = 2) -> dict[str, Any]:
    container = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    return {"metadata": {"uid": "u1", "name": "pod-1"}, "spec": spec, "status": {"phase": phase}}


def job(name: str, condition: str | None = None) -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True"}] if condition else []
    return {"metadata": {"uid": f"uid of {name}", "name": name}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([(0, "Pending", None, False), (9, "Pending", None, True)], 0.0, id="never on a node"),
        pytest.param([(0, "Pending", None, False), (1, "Pending", "n", False), (4, "Succeeded", "n", False)], 6.0),
        pytest.param([(1, "Running", "n", False), (4, "Running", "n", True), (5, "Failed", "n", True)], 6.0),
        pytest.param([(1, "Running", "n", False)], 18.0, id="still there at 10"),
        pytest.param([(3, "Succeeded", "n", False)], 0.0, id="had ended before anybody looked"),
    ],
)
def test_a_pod_holds_its_gpus_from_its_node_to_its_end(
    seen: list[tuple[float, str, str | None, bool]], expected: float
) -> None:
    tally = Tally()
    for now, phase, node, gone in seen:
        tally.see_pod(pod(phase, node=node), gone=gone, now=now)
    assert tally.gpu_seconds(10.0) == expected


def test_jobs_live_until_they_are_final_or_gone() -> None:
    tally = Tally()
    tally.see_job(job("a-1"), gone=False)
    tally.see_job(job("a-1", "FailureTarget"), gone=False)
    assert tally.most_live_jobs == 1
    tally.see_job(job("a-1", "Failed"), gone=False)
    tally.see_job(job("a-2"), gone=False)
    assert (tally.most_live_jobs, tally.jobs) == (1, ["a-1", "a-2"])
    tally.see_job(job("a-3"), gone=False)
    tally.see_job(job("a-2"), gone=True)
    assert (tally.most_live_jobs, list(tally.live_jobs.values())) == (2, ["a-3"])


GOOD: dict[str, Any] = {"state": "success", "gpu_seconds": 8.5, "attempts": 1, "jobs": ("a-1",), "most_live_jobs": 1}


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"gpu_seconds": 20.4, "in_flight_gpu_seconds": 8.4}, ""),
        ({"gpu_seconds": 12.6}, "12.6 GPU-seconds in 1 attempts; undisturbed it is 8.5 in 1, in flight were 0.0"),
        ({"state": "failed", "tasks": {"train": ("failed", 4)}}, "the run ended as failed: train failed in try 4"),
        ({"most_live_jobs": 2, "jobs": ("a-1", "a-2")}, "2 Jobs of one training lived at once: a-1, a-2"),
        ({"holding": ("pod-1",)}, "after the end GPUs are held by pod-1"),
        ({"trouble": "not reached", "state": "failed"}, "not reached"),
    ],
)
def test_a_cell_holds_or_says_what_was_wrong(changes: dict[str, Any], fault: str) -> None:
    cell, figures = cell_named("task.register.success"), Figures(**{**GOOD, **changes})
    found = faults_of(cell, figures, Figures(**GOOD), tolerance_s=4.0)
    assert found == ([fault] if fault else [])


def test_cells_are_named_by_words_and_patterns() -> None:
    assert len(choose([])) == 54
    assert len(choose(["deferred"])) == 9
    assert [cell.name for cell in choose(["worker.reg*.failure"])] == ["worker.register.failure"]
    with pytest.raises(ValueError, match="cell 'tomorrow': none is named so; give VICTIM"):
        choose(["tomorrow"])
