"""The queues of include/manifests/queues as they are shipped, on Kueue itself: who is next, and what is lent.

The cluster has the GPUs that the queues share out, so that the quota decides and never the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.trainings import SUCCEED, jobs_of
from tests.cluster.waiting_runs import WaitingRun, runs, until, verdicts
from tests.fake_mlflow import FakeMlflow

from sandbox import kueue, manifests
from sandbox.cluster import Sandbox
from sandbox.kueue import PRIORITY_LABEL, QUEUE_LABEL
from sandbox.nodes import NodeRequest
from sandbox.testing import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
ALL = 4
"""GPUs of the queue `trainings`."""
LENT = 3
"""GPUs that it lends, all of which the queue `backfills` may borrow."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of its own: Kueue has a word in every Job that is created."""
    sandbox = Sandbox.up(tmp_path_factory.mktemp("queues"), nodes=(NodeRequest(gpus=ALL),), owner_pid=os.getpid())
    kueue.install(sandbox)
    yield sandbox
    sandbox.down()


@pytest.fixture
def namespace(sandbox: Sandbox, namespace: str) -> str:
    """Give a namespace with the queues of the project's own."""
    for document in manifests.documents(namespace, folder=manifests.QUEUES):
        sandbox.api.apply(document)
    return namespace


def workload_of(sandbox: Sandbox, namespace: str, run: WaitingRun) -> dict[str, Any]:
    """Give the workload that stands for a run's Job; nothing while there is none."""
    for item in sandbox.api.request("GET", WORKLOADS.format(namespace))["items"]:
        if run.job in [owner["name"] for owner in item["metadata"].get("ownerReferences", [])]:
            return dict(item)
    return {}


def condition(sandbox: Sandbox, namespace: str, run: WaitingRun, kind: str) -> dict[str, Any]:
    conditions = workload_of(sandbox, namespace, run).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def job_of(sandbox: Sandbox, namespace: str, run: WaitingRun) -> dict[str, Any]:
    (found,) = (job for job in jobs_of(sandbox, namespace) if job["metadata"]["name"] == run.job)
    return found


def await_run(sandbox: Sandbox, namespace: str, run: WaitingRun) -> None:
    wait_for(lambda: runs(sandbox, namespace, run), DEADLINE_S, f"{run.job} to run")


def await_refusal(sandbox: Sandbox, namespace: str, run: WaitingRun, words: str) -> None:
    """Wait until Kueue says these words of a run's workload that it does not admit."""

    def said() -> bool:
        told = condition(sandbox, namespace, run, "QuotaReserved")
        return told.get("status") == "False" and words in told["message"]

    wait_for(said, DEADLINE_S, f"Kueue to say of {run.job}: {words}")


def waiting(sandbox: Sandbox, namespace: str, queue: str) -> list[str]:
    """Give the names of the Jobs that wait in a queue, the next one first."""
    return [each.job for each in kueue.pending_workloads(sandbox, namespace, queue)]


def test_trainings_run_in_their_order_and_each_knows_its_place(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    order, go = tmp_path / "order", tmp_path / "go"
    all_of_it: dict[str, Any] = {"queue": "trainings", "gpus": ALL}
    first = WaitingRun(namespace, "manual", until(go), **all_of_it)
    await_run(sandbox, namespace, first)
    others = []
    for run_type in ("backfill", "scheduled"):
        run = WaitingRun(namespace, run_type, f"echo {run_type} >> {order}; {SUCCEED}", **all_of_it)
        await_refusal(sandbox, namespace, run, f"for nvidia.com/gpu in flavor gpu-training, {ALL} more needed")
        others.append(run)

    backfill, nightly = others
    held = job_of(sandbox, namespace, backfill)
    assert held["metadata"]["labels"][QUEUE_LABEL] == "trainings"
    assert held["spec"]["suspend"] is True
    # Of Jobs of one second any would be the first; these are told apart by the priority of their pods.
    assert waiting(sandbox, namespace, "trainings") == [nightly.job, backfill.job]
    place = kueue.queue_position(sandbox, namespace, backfill.job)
    assert place is not None
    assert (place.position, place.priority) == (1, -5)

    go.touch()
    results = [run.result() for run in (first, nightly, backfill)]
    assert [result["attempts"] for result in results] == [1, 1, 1]
    assert order.read_text().split() == ["scheduled", "backfill"]


@pytest.mark.parametrize(
    ("queue", "gpus", "reason"),
    [("trainings", ALL, "InClusterQueue"), ("backfills", LENT, "InCohortReclamation")],
    ids=["of the same queue", "on what another queue has lent"],
)
def test_a_backfill_makes_room_waits_in_the_queue_again_and_goes_on_without_an_attempt_spent(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, queue: str, gpus: int, reason: str
) -> None:
    go, begun, nightly_go = tmp_path / "go", tmp_path / "begun", tmp_path / "nightly-go"
    backfill = WaitingRun(namespace, "backfill", until(go, also=f"echo >> {begun}"), queue=queue, gpus=gpus)
    await_run(sandbox, namespace, backfill)
    nightly = WaitingRun(namespace, "scheduled", until(nightly_go), queue="trainings", gpus=ALL)
    await_run(sandbox, namespace, nightly)
    assert condition(sandbox, namespace, backfill, "Preempted")["reason"] == reason
    assert job_of(sandbox, namespace, backfill)["spec"]["suspend"] is True
    wait_for(lambda: waiting(sandbox, namespace, queue) == [backfill.job], DEADLINE_S, "it to be in the queue again")

    nightly_go.touch()
    assert nightly.result()["attempts"] == 1
    go.touch()
    assert backfill.result()["attempts"] == 2
    assert begun.read_text() == "\n\n"
    assert not job_of(sandbox, namespace, backfill)["status"].get("failed")
    assert verdicts(sandbox, namespace, backfill) == [("disrupted", "wait")]


def test_a_backfill_makes_no_nightly_run_s_room(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    nightly = WaitingRun(namespace, "scheduled", until(go), queue="trainings", gpus=ALL)
    await_run(sandbox, namespace, nightly)
    for queue in ("trainings", "backfills"):
        backfill = WaitingRun(namespace, "backfill", SUCCEED, queue=queue, model=queue)
        await_refusal(sandbox, namespace, backfill, "1 more needed")
    go.touch()
    assert nightly.result()["attempts"] == 1


def test_one_gpu_is_never_lent(sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path) -> None:
    go = tmp_path / "go"
    greedy = WaitingRun(namespace, "backfill", SUCCEED, queue="backfills", gpus=LENT + 1, model="greedy")
    await_refusal(sandbox, namespace, greedy, f"({LENT + 1}) > maximum capacity ({LENT})")
    backfill = WaitingRun(namespace, "backfill", until(go), queue="backfills", gpus=LENT)
    await_run(sandbox, namespace, backfill)
    assert WaitingRun(namespace, "manual", SUCCEED, queue="trainings").result()["attempts"] == 1
    go.touch()
    assert backfill.result()["attempts"] == 1


def test_a_person_who_can_not_wait_puts_a_job_before_all_others(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    running = WaitingRun(namespace, "scheduled", until(go), queue="trainings", gpus=ALL)
    await_run(sandbox, namespace, running)
    urgent = WaitingRun(namespace, "backfill", SUCCEED, queue="trainings", gpus=ALL)
    await_refusal(sandbox, namespace, urgent, "more needed")
    path = f"{WORKLOADS.format(namespace)}/{workload_of(sandbox, namespace, urgent)['metadata']['name']}"
    sandbox.api.request("PATCH", path, {"spec": {"priority": 10}}, content_type="application/merge-patch+json")
    assert urgent.result()["attempts"] == 1
    go.touch()
    assert running.result()["attempts"] == 2


def test_a_dag_of_one_s_own_may_give_a_job_another_priority_in_its_queue_than_on_its_node(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    labels = {"metadata": {"labels": {PRIORITY_LABEL: "gpu-training-at-once"}}}
    run = WaitingRun(namespace, "backfill", SUCCEED, queue="trainings", full_job_spec=labels)
    wait_for(lambda: workload_of(sandbox, namespace, run), DEADLINE_S, "its workload")
    assert workload_of(sandbox, namespace, run)["spec"]["priority"] == 10
    assert job_of(sandbox, namespace, run)["spec"]["template"]["spec"]["priorityClassName"] == "gpu-training-backfill"
    assert run.result()["attempts"] == 1


def test_a_priority_class_that_is_not_there_leaves_the_job_without_a_place(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    log = sandbox.folder / "logs" / "kueue.log"
    lost = WaitingRun(namespace, "manual", SUCCEED, queue="trainings", priority_class="no-such-class")
    wait_for(lambda: '"no-such-class" not found' in log.read_text().replace("\\", ""), DEADLINE_S, "Kueue to look")
    assert workload_of(sandbox, namespace, lost) == {}
    assert job_of(sandbox, namespace, lost)["spec"]["suspend"] is True
