"""`gpu-training doctor` on a real control plane: a sound one, and each fault made for real."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.doctors import (
    NODE,
    SELECTOR,
    Doctor,
    broken,
    gpus,
    hold_a_gpu,
    pods_on_the_nodes_network,
    pods_warned_of,
    role_without,
    tainted,
)
from tests.cluster.trainings import jobs_of, pods_of
from tests.fake_mlflow import FakeMlflow
from tests.light_airflow import connect_cluster

from gpu_training.commands.exits import Exit
from sandbox import manifests
from sandbox.cluster import Sandbox
from sandbox.faults.access import fill_quota
from sandbox.faults.nodes import cordon_node, drop_gpus, restore_gpus, uncordon_node
from sandbox.nodes import NodeRequest
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster


@pytest.fixture
def doctor(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Doctor:
    """Give a doctor with the operator's own rights, a model and data that are sound."""
    doctor = Doctor(tmp_path, namespace, sandbox.operator_kubeconfig, capsys)
    doctor.write_model()
    doctor.publish()
    return doctor


@pytest.fixture
def admin(doctor: Doctor, sandbox: Sandbox) -> Doctor:
    """Give the same doctor with every right there is."""
    return replace(doctor, kubeconfig=sandbox.kubeconfig)


@pytest.fixture
def bare_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Give a cluster of its own, whose one node has no GPU."""
    node = NodeRequest(name="cpu-1", gpus=0, labels=SELECTOR, taints=())
    sandbox = Sandbox.up(tmp_path_factory.mktemp("bare"), nodes=(node,), owner_pid=os.getpid())
    yield sandbox
    sandbox.down()


@pytest.mark.parametrize("rights", ["the operator's", "all"])
def test_a_sound_cluster_has_nothing_broken_and_nothing_is_created(
    sandbox: Sandbox, namespace: str, doctor: Doctor, admin: Doctor, rights: str
) -> None:
    report = (admin if rights == "all" else doctor).run()

    assert (report.named("broken"), report.exit_code) == ([], Exit.DONE)
    assert report.document["sound"] is True
    assert report.named("warning") == ([] if rights == "all" else ["rights/pods/everywhere"])
    assert report.check("dry-run")["said"] == "the API server accepts the Job and a pod of it"
    assert "version 2013-w01" in report.check("data/shell")["said"]
    assert jobs_of(sandbox, namespace) == []
    assert pods_of(sandbox, namespace) == []


def test_with_all_rights_nothing_of_the_cluster_is_unknown(admin: Doctor) -> None:
    report = admin.run()
    assert report.named("unknown") == ["airflow"]
    assert report.named("warning") == []
    assert report.check("nodes")["said"] == "the training fits on gpu-1 now"
    assert report.check("device-plugin")["said"] == "all GPUs are offered on gpu-1"
    assert report.check("namespace")["said"] == "is there; Pod Security admits restricted"


def test_each_check_is_a_line_with_its_remedy_below_what_it_is_about(doctor: Doctor, namespace: str) -> None:
    doctor.write_model(service_account="nobody")
    lines = doctor.lines()
    assert f"namespace {namespace}" in lines
    (line,) = [line for line in lines if "service-account" in line]
    assert line.startswith("  broken   service-account/nobody: service account 'nobody'")
    assert "does not exist; to do: apply include/manifests" in line
    assert ", 2 broken, " in lines[-1]


@pytest.mark.parametrize("verb", ["create", "patch", "watch"])
def test_a_verb_that_the_role_lacks_is_named_with_its_use(
    sandbox: Sandbox, namespace: str, doctor: Doctor, verb: str
) -> None:
    with role_without(sandbox, namespace, "jobs", verb):
        report = doctor.run()
    broken(report, "rights/jobs", f"may not {verb} jobs ({verb}: ", f"allow {verb} on jobs (API group batch)")


def test_a_namespace_that_is_absent_is_one_line(admin: Doctor) -> None:
    admin.write_model(namespace="nowhere-at-all")
    report = admin.run()
    broken(report, "namespace", "namespace nowhere-at-all does not exist", "kubectl apply -k include/manifests")
    assert report.named("broken") == ["namespace"]


def test_a_namespace_that_may_not_be_read_lacks_its_rights(doctor: Doctor) -> None:
    doctor.write_model(namespace="nowhere-at-all")
    report = doctor.run()
    assert report.exit_code == Exit.FAILED
    assert {"rights/jobs", "rights/pods", "rights/configmaps"} <= set(report.named("broken"))
    assert report.check("namespace")["state"] == "unknown"
    assert report.check("dry-run")["state"] == "unknown"


@pytest.mark.parametrize("rights", ["the operator's", "all"])
@pytest.mark.parametrize(
    ("change", "name", "remedy"),
    [
        ({"service_account": "nobody"}, "service-account/nobody", "correct training.service_account"),
        ({"runtime_class": "absent"}, "runtimeclass/absent", "NVIDIA's GPU operator"),
        ({"priority_class": "absent"}, "priorityclass/absent", "correct training.priority_class"),
        ({"environment_from_config_maps": ["absent"]}, "configmap/absent", "environment_from_config_maps"),
    ],
)
def test_what_the_spec_names_and_is_not_there_is_told_whatever_the_account_may_read(
    doctor: Doctor, admin: Doctor, rights: str, change: dict[str, Any], name: str, remedy: str
) -> None:
    doctor.write_model(**change)
    report = (admin if rights == "all" else doctor).run()
    broken(report, name, "does not exist", remedy)


def test_a_priority_class_that_only_backfills_need_is_missed_as_well(sandbox: Sandbox, doctor: Doctor) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses/gpu-training-backfill"
    sandbox.api.request("DELETE", path)
    try:
        report = doctor.run()
    finally:
        manifests.apply(sandbox.api)
    broken(report, "priorityclass/gpu-training-backfill", "(by what starts a run) does not exist", "include/manifests")
    assert report.check("priorityclass/gpu-training-nightly")["state"] == "ok"


SECRETS = [
    ({"environment_from_secrets": ["absent"]}, "secret/absent", "does not exist"),
    ({"image_pull_secrets": ["opaque"]}, "secret/opaque", "of type Opaque, with which no image is pulled"),
    ({"secret_environment": {"TOKEN": {"secret": "opaque", "key": "absent"}}}, "secret/opaque", "has no key absent"),
]


@pytest.mark.parametrize(("change", "name", "said"), SECRETS)
def test_a_secret_that_is_absent_or_of_no_use_is_told_and_its_content_is_not(
    sandbox: Sandbox, namespace: str, admin: Doctor, change: dict[str, Any], name: str, said: str
) -> None:
    secret = {"metadata": {"name": "opaque"}, "stringData": {"token": "sesame-open"}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    admin.write_model(**change)

    report = admin.run()

    broken(report, name, said, "")
    shown = json.dumps(report.document) + "".join(admin.lines())
    assert "sesame-open" not in shown
    assert b64encode(b"sesame-open").decode() not in shown


def test_a_secret_that_may_not_be_read_is_said_and_is_no_fault(doctor: Doctor) -> None:
    doctor.write_model(environment_from_secrets=["credentials"])
    report = doctor.run()
    assert report.exit_code == Exit.DONE
    check = report.check("secret/credentials")
    assert check["state"] == "unknown"
    assert "may not be read by this account" in check["said"]


def test_a_quota_that_is_smaller_than_one_training_is_told(
    sandbox: Sandbox, namespace: str, doctor: Doctor, admin: Doctor
) -> None:
    fill_quota(sandbox, namespace, gpus=1)
    doctor.write_model(resources=gpus(2))
    broken(admin.run(), "quota", "smaller than one training: requests.nvidia.com/gpu", "raise the quota, or ask for")
    broken(doctor.run(), "quota", "requests.nvidia.com/gpu", "quota")


def test_a_quota_that_others_use_up_is_told(sandbox: Sandbox, namespace: str, doctor: Doctor, admin: Doctor) -> None:
    fill_quota(sandbox, namespace, gpus=1)
    hold_a_gpu(sandbox, namespace)
    report = admin.run()
    broken(report, "quota", "asked for 1, used 1 of 1", "wait until others")
    assert "exceeded quota: sandbox-fault" in report.check("dry-run")["said"]
    broken(doctor.run(), "quota", "requests.nvidia.com/gpu", "wait until others")


def test_what_may_not_be_read_is_a_warning_and_the_dry_run_stands_in_for_it(
    sandbox: Sandbox, namespace: str, doctor: Doctor
) -> None:
    with role_without(sandbox, namespace, "resourcequotas"):
        report = doctor.run()
        assert report.exit_code == Exit.DONE
        assert "nobody is told what is left of a quota" in report.check("rights/resourcequotas")["said"]
        assert "accepts one more training; how much is left may not be read" in report.check("quota")["said"]
        fill_quota(sandbox, namespace)
        broken(doctor.run(), "quota", "Quota sandbox-fault allows less than is asked for", "Ask for no more than 0")


def test_a_quota_says_what_is_left(sandbox: Sandbox, namespace: str, admin: Doctor) -> None:
    fill_quota(sandbox, namespace, gpus=3)
    check = admin.run().check("quota")
    assert check["state"] == "ok"
    assert "requests.nvidia.com/gpu of quota 'sandbox-fault': asked for 1, used 0 of 3" in check["said"]


@pytest.mark.parametrize("rights", ["the operator's", "all"])
def test_a_limit_range_that_the_spec_exceeds_is_told(
    sandbox: Sandbox, namespace: str, doctor: Doctor, admin: Doctor, rights: str
) -> None:
    limit = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "32Mi"}}]}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/limitranges", limit)
    report = (admin if rights == "all" else doctor).run()
    broken(report, "limit-range", "memory", "")


def test_a_pod_security_violation_is_told_with_the_servers_words(
    sandbox: Sandbox, namespace: str, doctor: Doctor
) -> None:
    with pods_on_the_nodes_network(sandbox, namespace):
        wait_for(lambda: doctor.run().exit_code == Exit.FAILED, 60, "the policy to be at work", pause_s=0.5)
        report = doctor.run()
    broken(report, "pod-security", "", "")
    assert "violates PodSecurity" in report.check("dry-run")["said"]
    assert "hostNetwork" in report.check("dry-run")["said"]


def test_a_warning_of_the_server_is_passed_on_and_breaks_nothing(
    sandbox: Sandbox, namespace: str, doctor: Doctor
) -> None:
    with pods_warned_of(sandbox, namespace, "name a cost centre"):
        wait_for(lambda: "dry-run" in doctor.run().named("warning"), 60, "the policy to be at work", pause_s=0.5)
        report = doctor.run()
    assert report.exit_code == Exit.DONE
    assert report.check("dry-run")["state"] == "warning"
    assert "name a cost centre" in report.check("dry-run")["said"]


def test_a_device_plugin_that_is_away_is_told(sandbox: Sandbox, admin: Doctor) -> None:
    drop_gpus(sandbox, NODE)
    try:
        report = admin.run()
    finally:
        restore_gpus(sandbox, NODE)
    broken(report, "device-plugin", "GPUs that are there are not offered on gpu-1", "device plugin")
    assert report.check("nodes")["state"] == "broken"


def test_a_taint_that_the_spec_does_not_tolerate_is_told_with_the_toleration(sandbox: Sandbox, admin: Doctor) -> None:
    with tainted(sandbox, {"key": "dedicated", "value": "ingest", "effect": "NoSchedule"}):
        report = admin.run()
        broken(report, "nodes", "taint dedicated=ingest:NoSchedule", "training.tolerations")
        assert "{key: dedicated, value: ingest, effect: NoSchedule}" in report.check("nodes")["remedy"]
        admin.write_model(tolerations=[{"key": "dedicated", "value": "ingest"}])
        assert admin.run().check("nodes")["state"] == "ok"


def test_a_label_that_no_node_has_is_told_with_one_that_has_room(admin: Doctor) -> None:
    admin.write_model(node_selector={"workload": "nowhere"})
    report = admin.run()
    broken(report, "nodes", "gpu-1 does not have the label workload=nowhere", "Correct training.node_selector")
    assert "workload: gpu-training" in report.check("nodes")["remedy"]


def test_more_gpus_than_any_node_has_are_told(admin: Doctor) -> None:
    admin.write_model(resources=gpus(8))
    broken(admin.run(), "nodes", "8 GPUs", "1 GPU would fit now on gpu-1")


def test_a_cordoned_node_is_a_warning(sandbox: Sandbox, admin: Doctor) -> None:
    cordon_node(sandbox, NODE)
    try:
        report = admin.run()
    finally:
        uncordon_node(sandbox, NODE)
    assert report.exit_code == Exit.DONE
    assert report.check("nodes")["state"] == "warning"
    assert "gpu-1 is cordoned" in report.check("nodes")["said"]


def test_a_queue_in_a_cluster_without_kueue_is_told(doctor: Doctor) -> None:
    doctor.write_model(queue="trainings")
    broken(doctor.run(), "localqueue/trainings", "the cluster has no Kueue", "install Kueue")


def test_an_api_server_that_does_not_answer_is_the_one_line_of_the_cluster(doctor: Doctor) -> None:
    config = json.loads(doctor.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    away = doctor.folder / "kubeconfig"
    away.write_text(json.dumps(config))
    report = replace(doctor, kubeconfig=away).run()
    broken(report, "api-server", "127.0.0.1:9", "kubeconfig")
    assert [each["name"] for each in report.document["checks"]] == [
        "file/shell",
        "api-server",
        "mlflow",
        "data/shell",
        "airflow",
    ]


def test_an_mlflow_that_is_away_is_told(doctor: Doctor, connected: FakeMlflow) -> None:
    connected.stop()
    broken(doctor.run(), "mlflow", "can not be reached", "start MLflow")


def test_an_mlflow_may_be_named_where_there_is_no_connection(
    doctor: Doctor, connected: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_MLFLOW_TRACKING")
    broken(doctor.run(), "mlflow", "'mlflow_tracking'", "AIRFLOW_CONN_MLFLOW_TRACKING where this runs")
    check = doctor.run("--mlflow-url", connected.uri).check("mlflow")
    assert (check["state"], check["subject"]) == ("ok", f"MLflow at {connected.uri}")


def test_data_that_is_not_what_its_manifest_says_is_told_without_being_read(doctor: Doctor) -> None:
    (doctor.folder / "versions" / "2013-w01" / "part.csv").unlink()
    broken(doctor.run(), "data/shell", "part.csv is missing", "correct `data`")


def test_an_airflow_connection_leads_to_the_cluster_as_well(doctor: Doctor) -> None:
    report = doctor.run("--conn-id", "kubernetes_gpu")
    assert report.exit_code == Exit.DONE
    assert "connection 'kubernetes_gpu'" in report.check("api-server")["subject"]


def test_a_model_of_another_cluster_is_said(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    connect_cluster(monkeypatch, doctor.kubeconfig, "elsewhere")
    report = doctor.run("--conn-id", "elsewhere")
    check = report.check("connection/shell")
    assert check["state"] == "warning"
    assert "--conn-id kubernetes_gpu" in check["remedy"]


def test_a_cluster_without_gpus_is_told(
    bare_sandbox: Sandbox, connected: FakeMlflow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor = Doctor(tmp_path, manifests.NAMESPACE, bare_sandbox.kubeconfig, capsys)
    doctor.write_model()
    doctor.publish()
    report = doctor.run()
    broken(report, "nodes", "No node offers nvidia.com/gpu", "adds GPU nodes")
    broken(report, "device-plugin", "none of the 1 nodes that are meant offers nvidia.com/gpu", "install NVIDIA's")
    bare_sandbox.remove_node("cpu-1")
    broken(doctor.run(), "nodes", "the cluster has no nodes", "add nodes with GPUs")


def test_where_an_autoscaler_may_add_the_node_that_is_missing_nothing_is_broken(
    sandbox: Sandbox, doctor: Doctor
) -> None:
    status = {"metadata": {"name": "cluster-autoscaler-status"}, "data": {"status": "autoscalerStatus: Running"}}
    path = "/api/v1/namespaces/kube-system/configmaps"
    doctor.write_model(resources=gpus(8))
    assert doctor.run().check("nodes")["state"] == "broken"
    sandbox.api.request("POST", path, status)
    try:
        report = doctor.run()
    finally:
        sandbox.api.request("DELETE", f"{path}/cluster-autoscaler-status")
    assert (report.check("nodes")["state"], report.exit_code) == ("warning", Exit.DONE)
    assert "cluster-autoscaler may add a node" in report.check("nodes")["remedy"]


def test_the_nodes_of_the_last_attempt_are_looked_at_as_well(admin: Doctor) -> None:
    budget, elsewhere = {"attempts": 2}, {"node_selector": {"workload": "nowhere"}}
    admin.write_model(spot_fallback=elsewhere, budget=budget, backoff_limit=1)
    report = admin.run()
    assert (report.check("nodes/spot-fallback")["state"], report.exit_code) == ("warning", Exit.DONE)
    admin.write_model(spot_fallback={"node_selector": dict(SELECTOR)}, budget=budget, backoff_limit=1)
    assert admin.run().check("nodes/spot-fallback")["state"] == "ok"
