"""Each cause of waiting, made for real, is told with its facts by what the trigger looks with: watch and lookout.

Two things can not run here and are posted, in the words of their own sources: the events of cluster-autoscaler and
Karpenter with what tells that they are there (:mod:`tests.cluster.pending_autoscalers`), and `attached` of a
VolumeAttachment, which an external attacher sets. containerd's words on images are ordered of the nodes' agents.
All else is what Kubernetes and Kueue do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import pending_autoscalers, pending_setting
from tests.cluster.admission_webhook import DenyingWebhook
from tests.cluster.pending_autoscalers import AUTOSCALED
from tests.cluster.pending_causes import SITUATIONS
from tests.cluster.pending_eyes import Eyes
from tests.cluster.pending_scene import MAIN, Scene, training
from tests.cluster.pending_setting import CLUSTER_AUTOSCALER, KARPENTER
from tests.cluster.pending_situation import Situation

from gpu_training.core.pending_cause import Cause, Cure
from sandbox import kwok
from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.control_plane import kubeconfig, write_secret_json
from sandbox.faults import programs
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0
PRESENCE = {
    CLUSTER_AUTOSCALER: (pending_autoscalers.add_cluster_autoscaler, pending_autoscalers.remove_cluster_autoscaler),
    KARPENTER: (pending_autoscalers.add_karpenter, pending_autoscalers.remove_karpenter),
}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of its own, at first without nodes."""
    folder = tmp_path_factory.mktemp("pending")
    sandbox = Sandbox.up(folder, nodes=(), lifecycle=pending_setting.LIFECYCLE, owner_pid=os.getpid())
    pending_setting.add_namespaces(Scene(sandbox))
    yield sandbox
    sandbox.down()


@pytest.fixture(scope="module")
def bare(sandbox: Sandbox) -> Scene:
    """Give the cluster before anything is in it but namespaces."""
    return Scene(sandbox)


@pytest.fixture(scope="module")
def eyes(sandbox: Sandbox) -> Iterator[Eyes]:
    """Give what watches with the operator's own rights."""
    with Eyes(sandbox.operator_kubeconfig) as eyes:
        yield eyes


@pytest.fixture(scope="module")
def scene(bare: Scene) -> Iterator[Scene]:
    """Give the cluster with all that the situations need around them."""
    with DenyingWebhook(bare.sandbox) as webhook:
        pending_setting.set_up(bare, webhook)
        yield bare


@pytest.fixture(scope="module")
def jobs(scene: Scene, eyes: Eyes) -> dict[str, Document]:
    """Make all situations at once, and give the Job of each."""
    made = {}
    for situation in SITUATIONS:
        if situation.ran:
            eyes.follow(scene.job(situation.ran))
    for situation in SITUATIONS:
        made[situation.name] = situation.make(scene)
        if not situation.ran:
            eyes.follow(made[situation.name])
    return made


@pytest.fixture(scope="module")
def blind(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the kubeconfig of an account that has the operator's rights in the namespace, and none outside of it."""
    accounts = f"/api/v1/namespaces/{MAIN}/serviceaccounts"
    sandbox.api.request("POST", accounts, {"metadata": {"name": "blind"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gpu-training-operator"}
    subject = {"kind": "ServiceAccount", "name": "blind", "namespace": MAIN}
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{MAIN}/rolebindings"
    sandbox.api.request("POST", bindings, {"metadata": {"name": "blind"}, "roleRef": role, "subjects": [subject]})
    asked = {"spec": {"expirationSeconds": 3600}}
    token = sandbox.api.request("POST", f"{accounts}/blind/token", asked)["status"]["token"]
    authority = sandbox.site.credentials.cluster.certificate
    document = kubeconfig(sandbox.api_url, authority, {"token": token}, namespace=MAIN)
    return write_secret_json(tmp_path_factory.mktemp("blind") / "kubeconfig", document)


def check(eyes: Eyes, job: Document, situation: Situation) -> None:
    """Have everything told that has to be told."""
    eyes.await_report(job, situation.cause, situation.cure, DEADLINE_S, lacks=situation.lacks)


def test_no_node_offers_a_gpu(bare: Scene) -> None:
    job = bare.create(training("no-nodes"))
    try:
        with Eyes(bare.sandbox.operator_kubeconfig) as eyes:
            sight = eyes.follow(job)
            assert eyes.await_report(job, Cause.NO_GPU_NODES, Cure.NEVER, DEADLINE_S).nodes == ()
            labels = {"pool": "cpu"}
            kwok.add_nodes(bare.sandbox, 1, name="cpu", gpus=0, cpu="8", memory="8Gi", labels=labels, taints=())

            def counted() -> bool:
                told = sight.report
                return told is not None and told.cause is Cause.NO_GPU_NODES and [n.count for n in told.nodes] == [1]

            wait_for(counted, DEADLINE_S, "a report that counts the node without GPUs")
            # It is new, and may yet offer some: no matter to the trainings that follow.
            assert sight.report is not None
            assert sight.report.cure is Cure.WAITING
    finally:
        bare.delete(job)
        bare.sandbox.api.request("DELETE", "/api/v1/nodes/cpu-1")


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_a_training_that_waits_is_told_why(jobs: dict[str, Document], eyes: Eyes, situation: Situation) -> None:
    check(eyes, jobs[situation.name], situation)


@pytest.mark.parametrize("autoscaler", AUTOSCALED)
def test_an_autoscaler_is_listened_to(scene: Scene, autoscaler: str) -> None:
    add, remove = PRESENCE[autoscaler]
    add(scene)
    with Eyes(scene.sandbox.operator_kubeconfig) as eyes:
        made = [(situation, situation.make(scene)) for situation in AUTOSCALED[autoscaler]]
        for _, job in made:
            eyes.follow(job)
        for situation, job in made:
            check(eyes, job, situation)
    remove(scene)


@pytest.mark.usefixtures("jobs")
def test_a_scheduler_that_does_nothing_is_told(scene: Scene, eyes: Eyes) -> None:
    programs.pause_program(scene.sandbox, "kube-scheduler")
    try:
        job = scene.create(training("not-looked-at", pool="free"))
        sight = eyes.follow(job)
        assert eyes.await_report(job, Cause.SCHEDULER_SILENT, Cure.TRANSIENT, DEADLINE_S).remedy
    finally:
        programs.resume_program(scene.sandbox, "kube-scheduler")
    scene.wait_for_pod("not-looked-at", phase="Running")
    wait_for(lambda: sight.report is None, DEADLINE_S, "no report of what runs")


@pytest.mark.usefixtures("jobs")
def test_a_controller_that_does_nothing_is_told(scene: Scene, eyes: Eyes) -> None:
    programs.stop_program(scene.sandbox, "kube-controller-manager")
    try:
        job = scene.create(training("not-taken-up", pool="free"))
        sight = eyes.follow(job)
        assert eyes.await_report(job, Cause.CONTROLLER_NOT_RUNNING, Cure.TRANSIENT, DEADLINE_S).remedy
    finally:
        programs.start_program(scene.sandbox, "kube-controller-manager")
    scene.wait_for_pod("not-taken-up", phase="Running")
    wait_for(lambda: sight.report is None, DEADLINE_S, "no report of what runs")


BLIND = {
    "all taken": Cause.GPUS_TAKEN,
    "too few in its pool": Cause.TOO_FEW_GPUS,
    "label not matched": Cause.LABEL_NOT_MATCHED,
}


@pytest.mark.parametrize("name", BLIND)
def test_without_a_look_at_nodes_the_scheduler_is_believed_and_the_rest_is_said_to_be_hidden(
    jobs: dict[str, Document], blind: Path, name: str
) -> None:
    with Eyes(blind) as eyes:
        eyes.follow(jobs[name])
        report = eyes.await_report(jobs[name], BLIND[name], Cure.WAITING, DEADLINE_S)
    assert any(part.startswith("nodes: ") for part in report.hidden), report
    assert "nodes are available" in report.words
