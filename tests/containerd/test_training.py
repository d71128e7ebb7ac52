"""A model's nightly run with its training in a real container: Airflow, cluster, S3 and MLflow are all there."""

from __future__ import annotations

import pytest
import yaml
from tests.light_airflow import LightAirflow
from tests.mlflow_service import MlflowServer
from tests.object_store_service import ObjectStoreServer
from tests.published_flights import publish_in, secret_of

from sandbox.cluster import Sandbox
from sandbox.containerd.store import Store
from sandbox.nodes import NodeRequest
from sandbox.testing import CONTAINERS

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(600)]

BUCKET = "real-containers"


@pytest.fixture
def credentials(object_store_server: ObjectStoreServer) -> dict[str, str]:
    """Publish a data version, and give the variables with which a container reads it."""
    return publish_in(object_store_server, BUCKET)


def test_model_is_trained_in_a_real_container_and_registered(
    sandbox: Sandbox,
    container_node: NodeRequest,
    namespace: str,
    light_airflow: LightAirflow,
    mlflow_server: MlflowServer,
    object_store_server: ObjectStoreServer,
    credentials: dict[str, str],
) -> None:
    sandbox.api.request("POST", f"/api/v1/namespaces/{namespace}/secrets", secret_of(credentials))
    light_airflow.connect_mlflow(mlflow_server.uri)
    light_airflow.patch.setenv("AIRFLOW_CONN_FLIGHTS_DATA", object_store_server.connection)
    file = light_airflow.take_project() / "flight_delay.yaml"
    document = yaml.safe_load(file.read_text())
    document["data"]["uri"] = f"s3://{BUCKET}/versions"
    document["registry"] |= {"registered_model": f"flight-delay-{namespace}", "experiment": namespace}
    image = Store.prepare(lambda _: None).reference("xgboost-trainer")
    training = document["training"]
    training["arguments"] |= {"rounds": 6, "max-depth": 2, "checkpoint-every": 2}
    training |= {
        "image": image,
        "namespace": namespace,
        "node_selector": {"workload": CONTAINERS},
        "checkpoint_uri": f"s3://{BUCKET}/checkpoints",
        "shared_memory": "16Mi",
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"},
            "limits": {"nvidia.com/gpu": 1, "memory": "600Mi"},
        },
    }
    document["parameters"].pop("image")
    file.write_text(yaml.safe_dump(document))

    run = light_airflow.run("nightly_retraining__flight-delay")
    assert run.states == {"resolve": "success", "train": "success", "register": "success", "clean_up": "success"}
    trained = run.result("train")
    assert (trained["last_step"], trained["device"], trained["attempts"]) == (6, "cpu", 1)
    # As containerd names it.
    assert trained["image"] == f"docker.io/library/{image}"
    assert trained["node_names"] == [container_node.name]
    assert run.result("register")["model_version"] == "1"
    checkpoints = object_store_server.client.list_objects_v2(Bucket=BUCKET, Prefix="checkpoints/")
    assert checkpoints["KeyCount"] > 0
