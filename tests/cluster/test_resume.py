"""What is reclaimed goes on from its last checkpoint: nothing before it is done again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.light_airflow import LightAirflow
from tests.mlflow_service import MlflowServer
from tests.object_store_service import ObjectStoreServer
from tests.reclaims import (
    Reclaim,
    Scene,
    fail_machine,
    flights,
    kill_training,
    set_scene,
    take_node,
)
from tests.resume_proof import check_that_only_lost_steps_were_done_again

from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest

__all__ = ["flights"]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

LAST = 60
"""Last step of a short training."""
TORN = "5f3c7b1e-0000-4000-8000-000000000000"
"""UID of a pod that died while it wrote."""


@pytest.fixture
def spot_nodes(sandbox: Sandbox, namespace: str) -> Iterator[dict[str, str]]:
    """Give the label of two nodes of the test's own, which may be taken away."""
    label = {"workload": f"spot-{namespace}"}
    names = [f"spot-{n}-{namespace}" for n in (1, 2)]
    for name in names:
        sandbox.add_node(NodeRequest(name=name, labels=label))
    yield label
    for name in names:
        if sandbox.processes_of(name):
            sandbox.remove_node(name)


@pytest.fixture
def scene(
    sandbox: Sandbox,
    namespace: str,
    light_airflow: LightAirflow,
    mlflow_server: MlflowServer,
    object_store_server: ObjectStoreServer,
    flights: dict[str, str],
    spot_nodes: dict[str, str],
) -> Scene:
    """Give the model whose trainings are reclaimed, on nodes of kind `process`."""
    return set_scene(
        sandbox,
        namespace,
        light_airflow,
        object_store_server,
        flights,
        tracking_uri=mlflow_server.uri,
        image=ImageStore().image("xgboost-trainer").identity,
        node_selector=spot_nodes,
    )


@pytest.mark.case("C106")
def test_a_training_that_is_reclaimed_three_times_does_only_what_no_checkpoint_holds_again(scene: Scene) -> None:
    check_that_only_lost_steps_were_done_again(
        scene,
        Reclaim(after=50, how=take_node, notice=True),
        Reclaim(after=100, how=fail_machine),
        Reclaim(after=150, how=kill_training),
    )


def test_a_torn_checkpoint_is_passed_over_with_a_warning_and_the_one_before_it_is_taken(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"torn-{scene.namespace}"

    def tear_and_kill(sandbox: Sandbox, pod: dict[str, Any]) -> None:
        scene.tear(scene.checkpoints(name)[-1], step=LAST, writer=TORN)
        kill_training(sandbox, pod)

    _, (_, second) = scene.train(
        name, Reclaim(after=20, how=tear_and_kill), rounds=LAST, checkpoint_every=20, round_seconds=0.15
    )
    (death,) = scene.deaths
    assert second.steps == range(death.checkpoint.step + 1, LAST + 1)
    assert f"/{TORN}/step-{LAST:08}" not in death.checkpoint.folder
    warned = [line for line in capsys.readouterr().out.splitlines() if f"/{TORN}/step-{LAST:08}" in line]
    assert any("is passed over: COMPLETE is absent" in line for line in warned)
