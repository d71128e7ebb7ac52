"""What is reclaimed goes on from its last checkpoint: nothing before it is done again, and the ledger says so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.trainings import (
    RUNS_ON,
    SUCCEED,
    TaskInstance,
    defer,
    fire,
    ledger_of,
    operator,
    recorded,
    spec,
    train,
)
from tests.fake_mlflow import FakeMlflow
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

from gpu_training.contract import Progress, render_progress
from gpu_training.core.errors import TrainingFailed
from gpu_training.operators.outcomes import TrainingFailedForGood
from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.nodes import NodeRequest
from sandbox.testing import wait_for

__all__ = ["flights"]

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

LAST = 60
"""Last step of a short training."""
CHECKPOINTS = "s3://nowhere/checkpoints"
"""Where the shell programs of these tests would keep theirs."""
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
def test_a_training_that_is_reclaimed_three_times_does_only_what_no_checkpoint_holds_again(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    check_that_only_lost_steps_were_done_again(
        scene,
        capsys,
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


def said(*progress: Progress) -> str:
    """Give the part of a script that says so."""
    return "; ".join(f"echo '{render_progress(each)}'" for each in progress)


def begins_anew(folder: Path, goes_on: str) -> str:
    """Give a script whose first run takes a checkpoint of step 40, does two steps more and fails; every later one
    ignores it and does this after its first step."""
    folder.chmod(0o777)
    first = said(
        Progress(step=40, total=100, first_step=1, checkpoint_step=40),
        Progress(step=42, total=100, first_step=1, checkpoint_step=40),
    )
    later = said(Progress(step=1, total=100, first_step=1))
    return f"if mkdir {folder}/tried; then {first}; exit 1; fi; {later}; {goes_on}"


def attempts_of(sandbox: Sandbox, namespace: str) -> list[dict[str, Any]]:
    """Give the attempts in the ledger, by age."""
    return [attempt for job in ledger_of(sandbox, namespace)["jobs"] for attempt in job["attempts"]]


def test_an_attempt_that_begins_at_0_though_a_checkpoint_is_there_is_stopped_where_that_is_the_policy(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    script = begins_anew(tmp_path, RUNS_ON)
    task = operator(spec(namespace, script, if_not_resumed="stop", checkpoint_uri=CHECKPOINTS), retries=2)
    first = TaskInstance(max_tries=2)
    with pytest.raises(TrainingFailed):
        train(task, first)
    with pytest.raises(
        TrainingFailedForGood, match="begins anew, at step 1, though the checkpoint of step 40"
    ) as caught:
        train(task, first.next_try())

    assert caught.value.verdict.category == "not_resumed"
    _, job = ledger_of(sandbox, namespace)["jobs"]
    (second,) = job["attempts"]
    assert (job["verdict"]["category"], second["first_step"]) == ("not_resumed", 1)
    # The program would have run for ten minutes.
    assert second["gpu_seconds"] < 60


def test_an_attempt_that_begins_at_0_goes_on_elsewhere_and_its_repeated_steps_are_counted(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, tmp_path: Path
) -> None:
    until_told = f"until [ -e {tmp_path}/told ]; do sleep 0.1; done"
    last = said(Progress(step=100, total=100, first_step=1))
    script = begins_anew(tmp_path, f"{until_told}; {last}; {SUCCEED}")
    task = operator(spec(namespace, script, if_not_resumed="warn", checkpoint_uri=CHECKPOINTS), retries=1)
    first = TaskInstance(max_tries=1)
    with pytest.raises(TrainingFailed):
        train(task, first)
    second = first.next_try()
    trigger = recorded(defer(task, second))
    with ThreadPoolExecutor(1) as other:
        ending = other.submit(fire, trigger)
        words = "begins anew, at step 1, though the checkpoint of step 40"
        wait_for(lambda: trigger.record.about(words), 30, words)
        (tmp_path / "told").touch()
        result = task.execute_complete(second.context, ending.result())

    assert [
        (attempt["first_step"], attempt["last_step"], attempt["checkpoint_step"])
        for attempt in attempts_of(sandbox, namespace)
    ] == [(1, 42, 40), (1, 100, None)]
    assert result["repeated_steps"] == 42
