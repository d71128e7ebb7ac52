"""Priority classes on a cluster whose one GPU is taken: who makes room for whom, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.trainings import SUCCEED, jobs_of
from tests.cluster.waiting_runs import WaitingRun, pods_of_job, runs, until, verdicts
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.precedence import PriorityClass
from sandbox.cluster import Sandbox
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def turned_away(sandbox: Sandbox, namespace: str, run: WaitingRun) -> str:
    """Give the scheduler's words on a run's pod that waits; empty while it has said nothing."""
    conditions = [
        each for pod in pods_of_job(sandbox, namespace, run.job) for each in pod["status"].get("conditions", [])
    ]
    return next((str(each.get("message", "")) for each in conditions if each["type"] == "PodScheduled"), "")


def test_the_classes_stand_as_the_manifest_says(sandbox: Sandbox) -> None:
    found = {
        item["metadata"]["name"]: (item["value"], item["preemptionPolicy"], item.get("globalDefault", False))
        for item in sandbox.api.request("GET", PRIORITY_CLASSES)["items"]
    }
    nightly, on_demand, backfill = (found[name] for name in PriorityClass)
    assert nightly == on_demand == (0, "PreemptLowerPriority", False)
    # Below -10 the cluster autoscaler makes no node for a pod.
    assert -10 <= backfill[0] < 0
    assert backfill[1:] == ("Never", False)


def test_a_nightly_run_takes_the_gpu_of_a_backfill_which_goes_on_afterwards_and_spends_no_attempt(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    go, begun = tmp_path / "go", tmp_path / "begun"
    backfill = WaitingRun(namespace, "backfill", until(go, also=f"echo >> {begun}"))
    wait_for(lambda: begun.exists() and runs(sandbox, namespace, backfill), DEADLINE_S, "the backfill to run")
    nightly = WaitingRun(namespace, "scheduled", SUCCEED)
    done = nightly.result()
    go.touch()
    later = backfill.result()

    assert (done["attempts"], later["attempts"]) == (1, 2)
    assert begun.read_text() == "\n\n"
    (job,) = (job for job in jobs_of(sandbox, namespace) if job["metadata"]["name"] == backfill.job)
    assert not job["status"].get("failed")
    assert verdicts(sandbox, namespace, backfill) == [("disrupted", "wait")]


@pytest.mark.parametrize("run_type", ["scheduled", "manual"])
def test_a_backfill_takes_nobody_s_gpu(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, run_type: str
) -> None:
    go = tmp_path / "go"
    first = WaitingRun(namespace, run_type, until(go))
    wait_for(lambda: runs(sandbox, namespace, first), DEADLINE_S, "the first training to run")
    backfill = WaitingRun(namespace, "backfill", SUCCEED)
    wait_for(
        lambda: "Insufficient nvidia.com/gpu" in turned_away(sandbox, namespace, backfill),
        DEADLINE_S,
        "the scheduler to look at the backfill's pod",
    )
    go.touch()
    assert first.result()["attempts"] == 1
    assert backfill.result()["attempts"] == 1


@pytest.mark.parametrize(("holder", "comer"), [("scheduled", "manual"), ("manual", "scheduled")])
def test_nightly_runs_and_a_person_s_never_push_each_other_out(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, holder: str, comer: str
) -> None:
    go = tmp_path / "go"
    first = WaitingRun(namespace, holder, until(go))
    wait_for(lambda: runs(sandbox, namespace, first), DEADLINE_S, "the first training to run")
    second = WaitingRun(namespace, comer, SUCCEED)
    wait_for(
        lambda: "No preemption victims found" in turned_away(sandbox, namespace, second),
        DEADLINE_S,
        "the scheduler to look for whom to push out",
    )
    go.touch()
    assert first.result()["attempts"] == second.result()["attempts"] == 1
