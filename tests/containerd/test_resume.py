"""What is reclaimed in a real container goes on from its last checkpoint, as on a node of kind `process`."""

from __future__ import annotations

import pytest
from tests.light_airflow import LightAirflow
from tests.mlflow_service import MlflowServer
from tests.object_store_service import ObjectStoreServer
from tests.reclaims import (
    Reclaim,
    Scene,
    evict,
    fail_machine,
    flights,
    kill_training,
    set_scene,
)
from tests.resume_proof import check_that_only_lost_steps_were_done_again

from sandbox.cluster import Sandbox
from sandbox.containerd.store import Store
from sandbox.nodes import NodeRequest

__all__ = ["flights"]

pytestmark = [pytest.mark.containerd, pytest.mark.timeout(600)]


@pytest.fixture
def scene(
    sandbox: Sandbox,
    container_node: NodeRequest,
    namespace: str,
    light_airflow: LightAirflow,
    mlflow_server: MlflowServer,
    object_store_server: ObjectStoreServer,
    flights: dict[str, str],
) -> Scene:
    """Give the model whose trainings are reclaimed, in real containers."""
    return set_scene(
        sandbox,
        namespace,
        light_airflow,
        object_store_server,
        flights,
        tracking_uri=mlflow_server.uri,
        image=Store.prepare(lambda _: None).reference("xgboost-trainer"),
        node_selector=container_node.labels,
    )


@pytest.mark.case("C106")
def test_a_training_in_containers_that_is_reclaimed_three_times_does_only_what_no_checkpoint_holds_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    check_that_only_lost_steps_were_done_again(
        scene,
        capsys,
        Reclaim(after=50, how=evict, notice=True),
        Reclaim(after=100, how=fail_machine),
        Reclaim(after=150, how=kill_training),
    )
