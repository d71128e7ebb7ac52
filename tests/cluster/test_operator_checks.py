"""What is refused before there is a Job, and the dry run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from tests.cluster.trainings import SUCCEED, TaskInstance, defer, execute, jobs_of, operator, pods_of, spec, train
from tests.fake_mlflow import FakeMlflow
from tests.light_airflow import connect_cluster

from gpu_training.core.errors import ClusterUnavailable, RegistryError
from sandbox.cluster import Sandbox
from sandbox.manifests import NAMESPACE
from sandbox.proxy import FaultyProxy
from sandbox.proxy_script import Action, Rule

pytestmark = pytest.mark.cluster


def test_a_dry_run_shows_and_checks_the_job_and_creates_nothing(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AirflowSkipException, match="dry run"):
        execute(operator(spec(namespace, SUCCEED), validate_only="True"), TaskInstance())

    said = capsys.readouterr().out
    assert "kind: Job" in said
    assert "accepts the Job and its pod" in said
    assert jobs_of(sandbox, namespace) == []
    assert pods_of(sandbox, namespace) == []
    assert connected.runs == {}


def test_a_dry_run_beside_a_live_job_of_the_same_work_is_no_conflict(namespace: str, connected: FakeMlflow) -> None:
    defer(operator(spec(namespace, SUCCEED)), TaskInstance())
    with pytest.raises(AirflowSkipException):
        execute(operator(spec(namespace, SUCCEED), validate_only=True), TaskInstance())


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"spec": {"template": {"spec": {"hostNetwork": True}}}}, "violates PodSecurity"),
        ({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {}}}, "selector"),
    ],
)
def test_a_dry_run_tells_what_the_server_would_refuse(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, job: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowFailException, match=said):
        execute(operator(spec(namespace, SUCCEED), validate_only=True, full_job_spec=job), TaskInstance())
    assert jobs_of(sandbox, namespace) == []


@pytest.mark.case("C042")
def test_a_dry_run_sees_the_quota(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    with pytest.raises(AirflowFailException, match="exceeded quota: none"):
        execute(operator(spec(namespace, SUCCEED), validate_only=True), TaskInstance())


def test_a_namespace_without_rights_is_refused_with_the_verb(sandbox: Sandbox, connected: FakeMlflow) -> None:
    with pytest.raises(AirflowFailException, match=r'cannot get resource "configmaps".*"default".*Role'):
        defer(operator(spec("default", SUCCEED)), TaskInstance())
    assert connected.runs == {}


def test_rights_that_lack_a_verb_are_named(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles/gpu-training-operator"
    role = sandbox.api.request("GET", path)
    role["rules"][0]["verbs"].remove("create")
    sandbox.api.request("PUT", path, role)
    with pytest.raises(AirflowFailException, match='cannot create resource "jobs"'):
        defer(operator(spec(namespace, SUCCEED)), TaskInstance())
    assert jobs_of(sandbox, namespace) == []
    (run_id,) = connected.runs
    assert connected.status_of(run_id) == "FAILED"


def test_a_job_that_contradicts_the_spec_is_refused_before_mlflow_has_a_run(
    namespace: str, connected: FakeMlflow
) -> None:
    contradiction = {"spec": {"backoffLimit": 7}}
    with pytest.raises(AirflowFailException, match="backoffLimit=7: is set by the training spec"):
        defer(operator(spec(namespace, SUCCEED), full_job_spec=contradiction), TaskInstance())
    assert connected.runs == {}


def test_an_unreachable_cluster_is_named_before_anything_is_made(
    sandbox: Sandbox, connected: FakeMlflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = yaml.safe_load(sandbox.operator_kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    connect_cluster(monkeypatch, tmp_path / "kubeconfig")
    with pytest.raises(ClusterUnavailable, match=r"'kubernetes_gpu' \(https://127.0.0.1:9\).*check that"):
        defer(operator(spec(NAMESPACE, SUCCEED)), TaskInstance())
    assert connected.runs == {}


@pytest.mark.parametrize("conn_id", ["kubernetes_gpu", "kubernetes_nowhere"])
def test_a_connection_that_is_missing_or_broken_is_named(
    connected: FakeMlflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conn_id: str
) -> None:
    connect_cluster(monkeypatch, tmp_path / "no-such-file")
    with pytest.raises(AirflowFailException, match=f"kubernetes_conn_id='{conn_id}'"):
        defer(operator(spec(NAMESPACE, SUCCEED), kubernetes_conn_id=conn_id), TaskInstance())


def test_an_mlflow_that_is_away_is_an_error_before_the_job(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow
) -> None:
    connected.stop()
    with pytest.raises(RegistryError, match="mlflow_tracking"):
        defer(operator(spec(namespace, SUCCEED)), TaskInstance())
    assert jobs_of(sandbox, namespace) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image": "{{ nothing }}"}, "image"),
        ({"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": "{{ half }}"}}}, "nvidia.com/gpu"),
    ],
)
def test_a_template_that_is_left_after_rendering_is_refused(
    connected: FakeMlflow, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(AirflowFailException, match=said):
        defer(operator(spec(NAMESPACE, SUCCEED, **change)), TaskInstance())


@pytest.mark.parametrize("version", [None, "", {}, {"id": "2013-w01"}])
def test_an_empty_data_version_is_refused(connected: FakeMlflow, version: Any) -> None:
    with pytest.raises(AirflowFailException, match="data_version"):
        defer(operator(spec(NAMESPACE, SUCCEED), data_version=version), TaskInstance())


ONCE = [
    Rule(action=Action.ANSWER, status=500, method="POST", count=1),
    Rule(action=Action.ANSWER, status=503, method="POST", count=2),
    Rule(action=Action.ANSWER, status=429, retry_after_s=1, method="POST", count=1),
    Rule(action=Action.RESET, method="POST", count=1),
    Rule(action=Action.LOSE_REPLY, method="POST", count=1),
]


@pytest.mark.case("C091")
@pytest.mark.parametrize("rule", ONCE, ids=["500", "503 twice", "429", "reset", "lost reply"])
def test_a_create_that_fails_at_first_makes_one_job(
    sandbox: Sandbox, namespace: str, proxy: FaultyProxy, rule: Rule
) -> None:
    proxy.follow(rule)
    train(operator(spec(namespace, SUCCEED)), TaskInstance())

    assert len(jobs_of(sandbox, namespace)) == 1
