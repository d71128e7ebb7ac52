"""`gpu-training doctor` where Kueue is: a queue that is there, absent, stopped, or leads nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.doctors import Doctor, Report, broken
from tests.fake_mlflow import FakeMlflow

from gpu_training.commands.exits import Exit
from sandbox import kueue
from sandbox.cluster import Sandbox
from sandbox.kueue import ClusterQueue, Flavor, LocalQueue
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

QUEUE = "trainings"
DEADLINE_S = 60


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of its own with Kueue and one cluster queue, since Kueue has a word in every Job."""
    sandbox = Sandbox.up(tmp_path_factory.mktemp("doctor-kueue"), owner_pid=os.getpid())
    kueue.install(sandbox)
    sandbox.api.apply(Flavor().document())
    sandbox.api.apply(ClusterQueue(name="gpus", gpus=1).document())
    yield sandbox
    sandbox.down()


@pytest.fixture
def doctor(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    doctor = Doctor(tmp_path, namespace, sandbox.kubeconfig, capsys)
    doctor.write_model(queue=QUEUE)
    doctor.publish()
    return doctor


def test_a_queue_that_is_active_is_well_and_so_are_the_rights_on_it(
    sandbox: Sandbox, namespace: str, doctor: Doctor
) -> None:
    sandbox.api.apply(LocalQueue(name=QUEUE, namespace=namespace, cluster_queue="gpus").document())
    report = once_it_says(doctor, "is active")
    assert (report.named("broken"), report.exit_code) == ([], Exit.DONE)
    assert report.check("rights/workloads")["state"] == "ok"
    assert report.check("rights/localqueues/pendingworkloads")["state"] == "ok"


def test_a_queue_that_is_absent_is_told(doctor: Doctor) -> None:
    broken(doctor.run(), f"localqueue/{QUEUE}", "does not exist", "with the cluster queue that it leads to")


def test_a_queue_that_leads_nowhere_is_told(sandbox: Sandbox, namespace: str, doctor: Doctor) -> None:
    sandbox.api.apply(LocalQueue(name=QUEUE, namespace=namespace, cluster_queue="nowhere").document())
    broken(once_it_says(doctor, "is not active"), f"localqueue/{QUEUE}", "is not active", "repair the cluster queue")


def test_a_queue_that_somebody_stopped_is_told(sandbox: Sandbox, namespace: str, doctor: Doctor) -> None:
    queue = LocalQueue(name=QUEUE, namespace=namespace, cluster_queue="gpus").document()
    queue["spec"]["stopPolicy"] = "Hold"
    sandbox.api.apply(queue)
    broken(once_it_says(doctor, "is stopped"), f"localqueue/{QUEUE}", "stopPolicy Hold", "set its stopPolicy to None")


def once_it_says(doctor: Doctor, words: str) -> Report:
    """Give the report in which the queue's check has these words: Kueue takes a moment to look at a queue."""

    def report() -> Report | None:
        report = doctor.run()
        return report if words in report.check(f"localqueue/{QUEUE}")["said"] else None

    found = wait_for(report, DEADLINE_S, f"the check to say {words!r}", pause_s=0.5)
    assert found is not None
    return found
