"""Results out of real containers: without rights, as another user, and with a sidecar that does not end by itself."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cluster.trainings import RESULT, TaskInstance, operator, pods_of, spec, train
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import TrainingFailed
from sandbox.cluster import Sandbox
from sandbox.testing import CONTAINERS

pytestmark = [pytest.mark.containerd, pytest.mark.usefixtures("container_node")]

LEAVE = f"echo '{RESULT}' > /dev/termination-log"
SIDECAR = {
    "name": "beside",
    "image": "sandbox-shell:1",
    "command": ["sh", "-c", "trap 'exit 7' TERM; while :; do sleep 1; done"],
    "restartPolicy": "Always",
    "resources": {"limits": {"memory": "32Mi"}, "requests": {"memory": "32Mi"}},
}
"""The kubelet ends it once the training's container has ended."""


def here(namespace: str, script: str) -> dict[str, Any]:
    return spec(namespace, script, node_selector={"workload": CONTAINERS})


def test_a_user_without_rights_on_a_read_only_file_system_hands_its_result_over(
    namespace: str, connected: FakeMlflow
) -> None:
    security = {"runAsUser": 65534, "runAsGroup": 65534, "readOnlyRootFilesystem": True}
    base = {"spec": {"template": {"spec": {"containers": [{"name": "training", "securityContext": security}]}}}}
    script = (
        "test $(id -u) = 65534 || exit 7; touch /new && exit 8; "
        f"test ! -e /var/run/secrets/kubernetes.io/serviceaccount || exit 9; {LEAVE}"
    )
    result = train(operator(here(namespace, script), full_job_spec=base), TaskInstance())

    assert result["metrics"] == {"mae": 1.5}


@pytest.mark.parametrize(
    ("script", "category"),
    [(f"{LEAVE}; exit 1", "application_error"), (LEAVE, None)],
    ids=["a training that fails", "a training that succeeds"],
)
def test_a_sidecar_ends_with_the_training_and_explains_nothing(
    sandbox: Sandbox, namespace: str, connected: FakeMlflow, script: str, category: str | None
) -> None:
    base = {"spec": {"template": {"spec": {"containers": [{"name": "training"}], "initContainers": [SIDECAR]}}}}
    task = operator(here(namespace, script), full_job_spec=base)
    if category is None:
        assert train(task, TaskInstance())["model_uri"] == "models:/m-1"
    else:
        with pytest.raises(TrainingFailed, match="container training exited with 1") as caught:
            train(task, TaskInstance())
        assert caught.value.verdict.category == category

    (pod,) = pods_of(sandbox, namespace)
    (status,) = pod["status"]["initContainerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 7
