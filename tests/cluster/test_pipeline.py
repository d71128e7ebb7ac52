"""Both DAGs of a model, run by Airflow itself: real cluster, real trainer, real MLflow server, data in a folder."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster.trainings import jobs_of
from tests.light_airflow import LightAirflow, Run
from tests.mlflow_service import MlflowServer, free_port
from tests.published_flights import FIRST_DAY, publish

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NEWEST, OLDER = "2013-03-11", FIRST_DAY


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with two data versions of the flights."""
    folder = tmp_path_factory.mktemp("flights")
    publish(f"file://{folder}", weeks=2)
    return folder


@dataclass(frozen=True)
class Project:
    """A copy of the project's DAG and model files, pointed at this test's servers."""

    airflow: LightAirflow
    models: Path

    def edit(self, file: str, change: Callable[[dict[str, Any]], None]) -> None:
        path = self.models / file
        document = yaml.safe_load(path.read_text())
        change(document)
        path.write_text(yaml.safe_dump(document))

    def run(self, dag_id: str, **conf: Any) -> Run:
        return self.airflow.run(dag_id, **conf)


@pytest.fixture
def project(
    tmp_path: Path,
    versions: Path,
    sandbox: Sandbox,
    namespace: str,
    mlflow_server: MlflowServer,
    light_airflow: LightAirflow,
) -> Project:
    """Give the project with small trainings in this test's namespace, and Airflow's connections to all it needs."""
    light_airflow.connect_mlflow(mlflow_server.uri)
    light_airflow.connect("flights_data", conn_type="fs")
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "flights-data-credentials"},
        "data": {"AWS_ENDPOINT_URL": base64.b64encode(b"http://127.0.0.1:1").decode()},
    }
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret)
    project = Project(light_airflow, light_airflow.take_project())

    def localise(document: dict[str, Any]) -> None:
        document["data"]["uri"] = f"file://{versions}"
        # By its digest, so that runs share their work.
        document["training"]["image"] = ImageStore().image("xgboost-trainer").identity
        # Of this test alone: what another one has registered must not be reused here.
        document["registry"] |= {"registered_model": f"{document['model']}-{namespace}", "experiment": namespace}
        training = document["training"]
        training |= {"namespace": namespace, "code_version": namespace, "shared_memory": "16Mi"}
        training["arguments"] |= {"rounds": 6, "max-depth": 2}
        training["resources"] = {
            "requests": {"cpu": "100m", "memory": "512Mi"},
            "limits": {"nvidia.com/gpu": 1, "memory": "512Mi"},
        }
        document["parameters"] = {
            name: parameter for name, parameter in document["parameters"].items() if name != "max_depth"
        }
        if "checkpoint_uri" in training:
            training["checkpoint_uri"] = f"file://{tmp_path}/checkpoints"

    for file in ("flight_delay.yaml", "air_time.yaml"):
        project.edit(file, localise)
    return project


def registered(project: Project, name: str) -> list[Any]:
    from gpu_training.registry.tracking_server import tracking_server

    with tracking_server("mlflow_tracking").client() as client:
        return list(client.search_model_versions(f"name = '{name}'"))


def test_nightly_and_on_demand_train_the_same_work_into_one_version(
    project: Project, sandbox: Sandbox, namespace: str
) -> None:
    nightly = project.run("nightly_retraining__flight-delay")
    assert nightly.states == {"resolve": "success", "train": "success", "register": "success", "clean_up": "success"}
    assert nightly.state == "success"
    version, trained, model = (nightly.result(task) for task in ("resolve", "train", "register"))
    assert (version["id"], version["ref"]) == (NEWEST, "latest")
    assert trained["data_digest"] == version["digest"]
    assert trained["gpu_seconds"] > 0
    assert trained["attempts"] == 1
    assert trained["metrics"]
    assert (model["model_version"], model["reused"]) == ("1", False)
    assert nightly.result("clean_up") == [trained["job"]]
    assert jobs_of(sandbox, namespace) == []

    left_alone = project.run("train_on_demand__flight-delay")
    assert left_alone.state == "success"
    again = left_alone.result("train")
    assert again["fingerprint"] == trained["fingerprint"]
    assert again["mlflow_run_id"] == trained["mlflow_run_id"]
    assert (again["reused"], again["model_version"], again["gpu_seconds"]) == (True, "1", 0)
    assert (left_alone.result("register")["model_version"], left_alone.result("register")["reused"]) == ("1", True)

    # As after a month, when the ledger is pruned: MLflow knows what is trained.
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    (ledger,) = sandbox.api.request("GET", f"{path}?labelSelector=gpu-training.io/ledger")["items"]
    sandbox.api.request("DELETE", f"{path}/{ledger['metadata']['name']}")
    later = project.run("train_on_demand__flight-delay")
    assert later.state == "success"
    remembered = later.result("train")
    assert (remembered["reused"], remembered["model_version"], remembered["job_uid"]) == (True, "1", trained["job_uid"])
    assert remembered["model_uri"] == trained["model_uri"]

    (only,) = registered(project, model["registered_model"])
    assert only.tags["gpu_training.fingerprint"] == trained["fingerprint"]
    assert only.tags["gpu_training.dag_run"] == nightly.dag_run.run_id
    assert only.tags["gpu_training.job_uid"] == trained["job_uid"]
    assert only.tags["gpu_training.data_version"] == NEWEST


@pytest.mark.case("C089")
def test_the_form_s_values_reach_the_training(project: Project) -> None:
    asked = project.run(
        "train_on_demand__air-time", data_version=OLDER, rounds=4, learning_rate=1, deadline_seconds=300
    )
    assert asked.state == "success"
    trained = asked.result("train")
    assert trained["data_version"] == OLDER
    assert trained["last_step"] == 4
    from gpu_training.registry.tracking_server import tracking_server

    with tracking_server("mlflow_tracking").client() as client:
        logged = client.get_run(trained["mlflow_run_id"]).data.params
    assert (logged["rounds"], float(logged["learning_rate"])) == ("4", 1.0)


def test_a_dry_run_shows_the_job_and_makes_nothing(
    project: Project, sandbox: Sandbox, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    dry = project.run("train_on_demand__air-time", dry_run=True, gpus=2)
    log = capsys.readouterr().out
    assert "nvidia.com/gpu: '2'" in log
    assert "priorityClassName: gpu-training-on-demand" in log
    assert "The API server accepts the Job and its pod" in log
    assert dry.states == {"resolve": "success", "train": "skipped", "register": "skipped", "clean_up": "success"}
    assert dry.state == "success"
    assert jobs_of(sandbox, namespace) == []
    assert registered(project, f"air-time-{namespace}") == []


def test_a_training_that_fails_fails_the_run_though_it_is_cleaned_up(
    project: Project, sandbox: Sandbox, namespace: str
) -> None:
    def spoil(document: dict[str, Any]) -> None:
        document["training"]["arguments"]["target"] = "punctuality"

    project.edit("air_time.yaml", spoil)
    failed = project.run("nightly_retraining__air-time")
    assert failed.states == {
        "resolve": "success",
        "train": "failed",
        "register": "upstream_failed",
        "clean_up": "success",
    }
    assert failed.state == "failed"
    assert registered(project, f"air-time-{namespace}") == []


@pytest.mark.parametrize(
    "conf",
    [{"data_version": "2013-03-12"}, {"data_version": "as of 2012-01-01T00:00:00+00:00"}, {"round": 4}],
    ids=["unknown version", "older than all", "misspelled parameter"],
)
def test_what_is_asked_for_in_error_fails_before_any_job(
    project: Project, sandbox: Sandbox, namespace: str, conf: dict[str, Any]
) -> None:
    refused = project.run("train_on_demand__air-time", **conf)
    assert refused.states == {
        "resolve": "failed",
        "train": "upstream_failed",
        "register": "upstream_failed",
        "clean_up": "success",
    }
    assert refused.state == "failed"
    assert jobs_of(sandbox, namespace) == []


@pytest.mark.parametrize("connection", ["mlflow_tracking", "kubernetes_gpu"])
def test_a_server_that_is_away_fails_the_run_before_any_job(
    project: Project, sandbox: Sandbox, namespace: str, tmp_path: Path, connection: str
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    if connection == "mlflow_tracking":
        project.airflow.connect_mlflow(away)
    else:
        kubeconfig = yaml.safe_load(sandbox.operator_kubeconfig.read_text())
        kubeconfig["clusters"][0]["cluster"]["server"] = away
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig))
        project.airflow.connect_cluster(path)
    project.edit("air_time.yaml", lambda document: document.update(retries=0))
    failed = project.run("nightly_retraining__air-time")
    states = failed.states
    assert (states["resolve"], states["train"], states["register"]) == ("success", "failed", "upstream_failed")
    assert states["clean_up"] == ("success" if connection == "mlflow_tracking" else "failed")
    assert failed.state == "failed"
    assert jobs_of(sandbox, namespace) == []
