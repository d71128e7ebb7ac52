"""Kueue's controller, unchanged in what it decides: who may run, who waits where, who lends and who goes first."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.cluster import looking
from tests.cluster.pod_documents import SECURITY

from gpu_training.cluster.jobs import reference_of
from sandbox import kueue, kwok
from sandbox.cluster import Sandbox
from sandbox.errors import SandboxError
from sandbox.kueue import PRIORITY_LABEL, QUEUE_LABEL, ClusterQueue, Flavor, LocalQueue, Preempt, Priority
from sandbox.kwok import PodLife
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of its own, with more GPUs than any quota here: Kueue has a word in every Job that is created."""
    sandbox = Sandbox.up(tmp_path_factory.mktemp("kueue"), nodes=(), owner_pid=os.getpid())
    kueue.install(sandbox)
    kwok.add_nodes(sandbox, 2)
    sandbox.api.apply(Flavor().document())
    yield sandbox
    sandbox.down()


@pytest.fixture
def apply(sandbox: Sandbox) -> Iterator[Callable[..., None]]:
    """Apply queues and priorities; they go after the test."""
    documents: list[dict[str, Any]] = []

    def apply(*items: ClusterQueue | LocalQueue | Priority) -> None:
        documents.extend(sandbox.api.apply(item.document()) for item in items)

    yield apply
    for document in reversed(documents):
        sandbox.api.request("DELETE", sandbox.api.path_of(document))


@pytest.fixture
def unique() -> str:
    return secrets.token_hex(3)


def submit(
    sandbox: Sandbox, namespace: str, name: str, queue: str, *, priority: str | None = None, life: PodLife | None = None
) -> str:
    container = {
        "name": "training",
        "image": "trainer:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}},
        "securityContext": SECURITY,
    }
    spec = {
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"gpu-training.io/node-kind": "kwok"},
        "containers": [container],
    }
    labels = {QUEUE_LABEL: queue} | ({PRIORITY_LABEL: priority} if priority else {})
    template = {"metadata": {"annotations": (life or PodLife()).annotations()}, "spec": spec}
    job = {"metadata": {"name": name, "labels": labels}, "spec": {"suspend": True, "template": template}}
    sandbox.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    return name


def job(sandbox: Sandbox, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = sandbox.api.request("GET", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    return found


def running(sandbox: Sandbox, namespace: str, *names: str) -> list[str]:
    """Give those of these Jobs that run."""
    return [name for name in names if job(sandbox, namespace, name)["status"].get("active")]


def waiting(sandbox: Sandbox, namespace: str, queue: str) -> list[str]:
    return [each.job for each in kueue.pending_workloads(sandbox, namespace, queue)]


def end(sandbox: Sandbox, namespace: str, name: str) -> None:
    """Have a Job's pods end well; a deleted Job's workload would wait for the garbage collector to know its kind."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    change = {"metadata": {"annotations": PodLife(run_s=0).annotations()}}
    for pod in sandbox.api.request("GET", f"{pods}?labelSelector=job-name={name}")["items"]:
        path = f"{pods}/{pod['metadata']['name']}"
        sandbox.api.request("PATCH", path, change, content_type="application/merge-patch+json")


def test_jobs_are_admitted_one_by_one_and_told_where_they_wait(
    sandbox: Sandbox, namespace: str, apply: Callable[..., None], unique: str
) -> None:
    cluster_queue = f"one-gpu-{unique}"
    apply(ClusterQueue(name=cluster_queue, gpus=1))
    apply(LocalQueue(name="trainings", namespace=namespace, cluster_queue=cluster_queue))
    # Of Jobs of one second any may be the first.
    jobs = [submit(sandbox, namespace, f"{word}-{unique}", "trainings") for word in "abc"]
    wait_for(lambda: running(sandbox, namespace, *jobs), DEADLINE_S, "one of them to run")
    wait_for(lambda: len(waiting(sandbox, namespace, "trainings")) == 2, DEADLINE_S, "the others to wait")
    (first,) = running(sandbox, namespace, *jobs)
    second, third = waiting(sandbox, namespace, "trainings")
    assert job(sandbox, namespace, second)["spec"]["suspend"] is True
    told = kueue.queue_position(sandbox, namespace, third)
    assert told is not None
    assert (told.position, told.position_in_cluster_queue) == (1, 1)
    assert kueue.queue_position(sandbox, namespace, first) is None
    end(sandbox, namespace, first)
    wait_for(lambda: running(sandbox, namespace, second), DEADLINE_S, "the second Job to run")
    assert waiting(sandbox, namespace, "trainings") == [third]


def test_a_cohort_lends_and_takes_back(
    sandbox: Sandbox, namespace: str, apply: Callable[..., None], unique: str
) -> None:
    cohort, ours, theirs = f"team-{unique}", f"ours-{unique}", f"theirs-{unique}"
    apply(
        ClusterQueue(name=ours, gpus=1, cohort=cohort, borrows=1, reclaims=Preempt.ANY),
        ClusterQueue(name=theirs, gpus=1, cohort=cohort, reclaims=Preempt.ANY),
        LocalQueue(name="ours", namespace=namespace, cluster_queue=ours),
        LocalQueue(name="theirs", namespace=namespace, cluster_queue=theirs),
    )
    jobs = [submit(sandbox, namespace, f"{word}-{unique}", "ours") for word in "abc"]
    wait_for(lambda: len(running(sandbox, namespace, *jobs)) == 2, DEADLINE_S, "one Job on a GPU that is lent")
    wait_for(lambda: len(waiting(sandbox, namespace, "ours")) == 1, DEADLINE_S, "the third Job to wait")
    lender = submit(sandbox, namespace, f"d-{unique}", "theirs")
    wait_for(lambda: running(sandbox, namespace, lender), DEADLINE_S, "the lender to have its GPU back")
    wait_for(lambda: len(running(sandbox, namespace, *jobs)) == 1, DEADLINE_S, "the borrower to be pushed out")


def test_a_higher_priority_goes_first_and_pushes_out(
    sandbox: Sandbox, namespace: str, apply: Callable[..., None], unique: str
) -> None:
    cluster_queue, urgent, nightly = f"by-priority-{unique}", f"urgent-{unique}", f"nightly-{unique}"
    apply(
        Priority(name=nightly, value=10),
        Priority(name=urgent, value=1000),
        ClusterQueue(name=cluster_queue, gpus=1, preempts=Preempt.LOWER_PRIORITY),
        LocalQueue(name="trainings", namespace=namespace, cluster_queue=cluster_queue),
    )
    slow = [submit(sandbox, namespace, f"{word}-{unique}", "trainings", priority=nightly) for word in "ab"]
    wait_for(lambda: running(sandbox, namespace, *slow), DEADLINE_S, "a nightly Job to run")
    quick = submit(sandbox, namespace, f"c-{unique}", "trainings", priority=urgent, life=PodLife(run_s=2))
    wait_for(lambda: running(sandbox, namespace, quick), DEADLINE_S, "the urgent Job to run")
    wait_for(lambda: set(waiting(sandbox, namespace, "trainings")) == set(slow), DEADLINE_S, "the others to wait")
    assert all(job(sandbox, namespace, name)["spec"]["suspend"] for name in slow)
    wait_for(lambda: job(sandbox, namespace, quick)["status"].get("succeeded"), DEADLINE_S, "the urgent Job's success")
    wait_for(lambda: running(sandbox, namespace, *slow), DEADLINE_S, "a nightly Job to run again")


def test_a_training_that_waits_is_told_its_place(
    sandbox: Sandbox, namespace: str, apply: Callable[..., None], unique: str
) -> None:
    cluster_queue = f"told-{unique}"
    apply(ClusterQueue(name=cluster_queue, gpus=1))
    apply(LocalQueue(name="trainings", namespace=namespace, cluster_queue=cluster_queue))
    jobs = [submit(sandbox, namespace, f"{word}-{unique}", "trainings") for word in "abc"]
    wait_for(lambda: len(waiting(sandbox, namespace, "trainings")) == 2, DEADLINE_S, "two of them to wait")
    wait_for(lambda: running(sandbox, namespace, *jobs), DEADLINE_S, "the other one to run")
    (first,) = running(sandbox, namespace, *jobs)
    second, third = waiting(sandbox, namespace, "trainings")

    async def scene() -> None:
        last = reference_of(job(sandbox, namespace, third))
        async with looking.waiting(sandbox.operator_kubeconfig, last) as subscription:

            def place() -> int | None:
                workloads = subscription.around().workloads or ()
                return next((each.position for each in workloads if each.job_uid == last.uid), None)

            await looking.told(subscription, lambda: place() == 1, "its place")
            end(sandbox, namespace, first)
            await looking.told(subscription, lambda: place() == 0, "its next place")
            events = subscription.around().events or ()
            assert "Pending" in [each.reason for each in events if each.kind == "Workload"]

    looking.play(scene())
    wait_for(lambda: running(sandbox, namespace, second), DEADLINE_S, "the second Job to run")


def test_a_killed_controller_goes_on_where_it_was(
    sandbox: Sandbox, namespace: str, apply: Callable[..., None], unique: str
) -> None:
    cluster_queue = f"killed-{unique}"
    apply(ClusterQueue(name=cluster_queue, gpus=1))
    apply(LocalQueue(name="trainings", namespace=namespace, cluster_queue=cluster_queue))
    jobs = [submit(sandbox, namespace, f"{word}-{unique}", "trainings") for word in "ab"]
    wait_for(lambda: running(sandbox, namespace, *jobs), DEADLINE_S, "one Job to run")
    (first,) = running(sandbox, namespace, *jobs)
    (second,) = set(jobs) - {first}
    sandbox.supervisor.stop("kueue", grace_s=0)
    with pytest.raises(SandboxError, match="failed calling webhook"):
        submit(sandbox, namespace, f"c-{unique}", "trainings")
    end(sandbox, namespace, first)
    kueue.install(sandbox)
    wait_for(lambda: running(sandbox, namespace, second), DEADLINE_S, "the other Job to run")


def test_a_job_without_a_queue_is_none_of_its_business(sandbox: Sandbox, namespace: str) -> None:
    container = {"name": "training", "image": "trainer:1", "securityContext": SECURITY}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    created = sandbox.api.request(
        "POST",
        f"/apis/batch/v1/namespaces/{namespace}/jobs",
        {"metadata": {"name": "free"}, "spec": {"template": template}},
    )
    assert not created["spec"].get("suspend")
    assert kueue.queue_position(sandbox, namespace, "free") is None
