"""What ends a training that waits, and what does not: its clocks, and causes that no waiting cures.

Through operator and trigger, as task runner and triggerer run them, with the operator's own rights. The autoscaler's
event is posted, as :mod:`tests.cluster.pending_autoscalers` says.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.cluster import pending_autoscalers
from tests.cluster.pending_scene import Scene
from tests.cluster.trainings import SUCCEED, jobs_of, pods_of
from tests.cluster.waits import DEADLINE_S, Wait, waits
from tests.fake_mlflow import FakeMlflow

from gpu_training.core.errors import TrainingFailed
from gpu_training.core.naming import ANNOTATION_PENDING
from gpu_training.core.verdict import Category
from sandbox.agent.images import ImageStore
from sandbox.cluster import Sandbox
from sandbox.faults import access, nodes, pods
from sandbox.nodes import NodeRequest
from sandbox.waiting import wait_for

pytestmark = pytest.mark.cluster

SCARCE = {"node_selector": {"pool": "scarce"}}
"""A node with one GPU."""
ROOMY = {"node_selector": {"pool": "roomy"}}
LATE = {"node_selector": {"pool": "late"}}
"""No node, at first."""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    requests = [
        NodeRequest(name="scarce-1", gpus=1, labels={"pool": "scarce", "disk": "slow"}),
        NodeRequest(name="roomy-1", gpus=8, labels={"pool": "roomy", "disk": "slow"}),
    ]
    sandbox = Sandbox.up(tmp_path_factory.mktemp("clocks"), nodes=requests, owner_pid=os.getpid())
    yield sandbox
    sandbox.down()


@pytest.fixture
def begin(sandbox: Sandbox, namespace: str, connected: FakeMlflow) -> Iterator[Callable[..., Wait]]:
    """Give a function that begins a training, which succeeds once it runs."""
    with waits(sandbox, namespace, SUCCEED) as begin:
        yield begin


@pytest.fixture
def held(sandbox: Sandbox, namespace: str) -> str:
    """Have the scarce GPU held by another training, `holder`, whose end is an hour away."""
    Scene(sandbox).hold("holder", pool="scarce", namespace=namespace, job={"activeDeadlineSeconds": 3600})
    return "holder"


@pytest.fixture
def autoscaler(sandbox: Sandbox) -> Iterator[None]:
    """Have an autoscaler be there, which may add the node `late-1`."""
    pending_autoscalers.add_cluster_autoscaler(Scene(sandbox))
    yield
    pending_autoscalers.remove_cluster_autoscaler(Scene(sandbox))
    if sandbox.processes_of("late-1"):
        sandbox.remove_node("late-1")


def failed(wait: Wait) -> TrainingFailed:
    """Give what the task raises."""
    with pytest.raises(TrainingFailed) as caught:
        wait.conclude()
    return caught.value


def await_gone(sandbox: Sandbox, wait: Wait) -> None:
    wait_for(lambda: not sandbox.api.exists(wait.path), DEADLINE_S, f"the end of {wait.path}")


def let_pass(seconds: float) -> None:
    """Have a clock run that is not to count."""
    end = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > end, seconds + 1, "time to pass")


@pytest.mark.case("C035")
@pytest.mark.case("C046")
def test_a_training_without_a_gpu_says_why_once_and_is_given_up_by_its_queue_clock(
    sandbox: Sandbox, begin: Callable[..., Wait], held: str
) -> None:
    wait = begin(**SCARCE, clocks={"queue_seconds": 5}, backoff_limit=0)
    line = wait.await_line("GPU")
    assert held in line
    error = failed(wait)
    assert error.verdict.category is Category.QUEUE_TIMEOUT
    assert held in str(error)
    assert wait.log(line) == [line]
    await_gone(sandbox, wait)


NOBODY = {"full_job_spec": {"spec": {"template": {"spec": {"containers": [], "schedulerName": "nobody"}}}}}
SUSPENDED = {"full_job_spec": {"spec": {"suspend": True}}}


@pytest.mark.case("C044")
@pytest.mark.case("C046")
def test_what_nobody_looks_at_is_given_up_by_the_queue_clock_too(sandbox: Sandbox, begin: Callable[..., Wait]) -> None:
    limit = {"clocks": {"queue_seconds": 4}, "backoff_limit": 0}
    unseen, suspended = begin(**ROOMY, **limit, task=NOBODY), begin(**ROOMY, **limit, task=SUSPENDED)
    unseen.await_line("scheduler")
    suspended.await_line("suspended")
    for wait in (unseen, suspended):
        assert failed(wait).verdict.category is Category.QUEUE_TIMEOUT
        await_gone(sandbox, wait)


INVALID = {"name": "download", "image": "Bad_Image:::x", "resources": {"limits": {"memory": "16Mi"}}}
OF_NO_IMAGE = {"full_job_spec": {"spec": {"template": {"spec": {"containers": [], "initContainers": [INVALID]}}}}}


@pytest.mark.case("C036")
@pytest.mark.case("C038")
@pytest.mark.case("C041")
@pytest.mark.usefixtures("held")
def test_a_gpu_is_waited_for_and_what_no_waiting_cures_ends_at_once(
    sandbox: Sandbox, namespace: str, begin: Callable[..., Wait]
) -> None:
    patient = begin(**SCARCE)
    hopeless = {
        "no-such-image": begin(**ROOMY, image="no-such-image:1"),
        "Bad_Image:::x": begin(**ROOMY, task=OF_NO_IMAGE),
        "no-such-secret": begin(**ROOMY, secret_environment={"KEY": {"secret": "no-such-secret", "key": "key"}}),
        "disk=fast": begin(node_selector={"disk": "fast"}),
    }
    for wait in (patient, *hopeless.values()):
        wait_for(partial(pods_of_job, sandbox, wait), DEADLINE_S, "its pod, which a quota leaves where it is")
    access.fill_quota(sandbox, namespace, gpus=0)
    hopeless["sandbox-fault"] = begin(**ROOMY)
    for word, wait in hopeless.items():
        error = failed(wait)
        assert error.verdict.category is Category.CAN_NOT_START
        assert word in str(error)
        await_gone(sandbox, wait)
    assert patient.payloads == []
    assert sandbox.api.exists(patient.path)
    access.free_quota(sandbox, namespace)


@pytest.mark.case("C037")
@pytest.mark.usefixtures("autoscaler")
def test_the_autoscalers_time_does_not_count_as_the_images(sandbox: Sandbox, begin: Callable[..., Wait]) -> None:
    scene = Scene(sandbox)
    wait = begin(**LATE, clocks={"queue_seconds": 60, "startup_seconds": 5})
    namespace = wait.trigger.job["namespace"]
    pod = scene.wait_for_pod(wait.trigger.job["name"], phase="Pending", namespace=namespace)
    words = "pod triggered scale-up: [{late-pool 0->1 (max: 3)}]"
    scene.tell(pod, source="cluster-autoscaler", reason="TriggeredScaleUp", message=words)
    wait.await_line("late-pool")
    let_pass(6)
    taint = "example.com/not-yet=true:NoSchedule"
    sandbox.add_node(NodeRequest(name="late-1", labels={"pool": "late"}, taints=(taint,)))
    listens = sandbox.site.node_folder("late-1") / "ready.json"
    wait_for(listens.exists, DEADLINE_S, "the node's agent to take orders")
    pods.slow_image(sandbox, "late-1", "sandbox-shell", delay_s=2)
    scene.patch("/api/v1/nodes/late-1", {"spec": {"taints": []}})
    assert wait.conclude()["node_names"] == ["late-1"]


@pytest.mark.case("C039")
def test_an_image_that_the_registry_holds_back_is_waited_for(sandbox: Sandbox, begin: Callable[..., Wait]) -> None:
    words = "toomanyrequests: You have reached your pull rate limit"
    pods.refuse_image(sandbox, "roomy-1", "sandbox-shell", message=words)
    try:
        wait = begin(**ROOMY)
        wait.await_line("sandbox-shell")
        let_pass(3)
        assert wait.payloads == []
    finally:
        pods.admit_image(sandbox, "roomy-1", "sandbox-shell")
    assert wait.conclude()["attempts"] == 1


@pytest.mark.case("C039")
def test_an_image_that_never_comes_is_given_up_by_the_startup_clock(
    sandbox: Sandbox, begin: Callable[..., Wait]
) -> None:
    pods.slow_image(sandbox, "roomy-1", "sandbox-shell", delay_s=600)
    try:
        wait = begin(**ROOMY, clocks={"startup_seconds": 4})
        assert failed(wait).verdict.category is Category.STARTUP_TIMEOUT
        await_gone(sandbox, wait)
    finally:
        pods.admit_image(sandbox, "roomy-1", "sandbox-shell")


@pytest.mark.case("C040")
def test_a_gpu_that_comes_after_the_time_out_is_not_used(
    sandbox: Sandbox, namespace: str, begin: Callable[..., Wait]
) -> None:
    nodes.drop_gpus(sandbox, "scarce-1")
    try:
        wait = begin(**SCARCE, clocks={"queue_seconds": 4})
        assert failed(wait).verdict.category is Category.QUEUE_TIMEOUT
    finally:
        nodes.restore_gpus(sandbox, "scarce-1")
    await_gone(sandbox, wait)
    assert (jobs_of(sandbox, namespace), pods_of(sandbox, namespace)) == ([], [])


@pytest.mark.case("C040")
def test_whose_clock_has_run_out_leaves_the_job_to_others_who_wait_on_it(
    sandbox: Sandbox, namespace: str, begin: Callable[..., Wait], held: str
) -> None:
    image = ImageStore().image("sandbox-shell").identity
    patient, hasty = begin(**SCARCE, image=image), begin(**SCARCE, image=image, clocks={"queue_seconds": 4})
    assert patient.path == hasty.path
    assert failed(hasty).verdict.category is Category.QUEUE_TIMEOUT
    assert patient.payloads == []
    Scene(sandbox).delete(Scene(sandbox).job(held, namespace))
    assert patient.conclude()["attempts"] == 1


@pytest.mark.case("C041")
def test_a_full_quota_is_a_queue_and_is_named(sandbox: Sandbox, namespace: str, begin: Callable[..., Wait]) -> None:
    Scene(sandbox).hold("holder", pool="roomy", namespace=namespace)
    access.fill_quota(sandbox, namespace, gpus=1)
    wait = begin(**ROOMY)
    line = wait.await_line("sandbox-fault")
    assert "1 of 1 used" in line
    assert pods_of_job(sandbox, wait) == []
    wait_for(lambda: written(sandbox, wait) == "quota_exceeded", DEADLINE_S, "the cause on the Job")
    access.fill_quota(sandbox, namespace, gpus=2)
    assert wait.conclude()["attempts"] == 1
    assert wait.log("sandbox-fault") == [line]
    access.free_quota(sandbox, namespace)


def written(sandbox: Sandbox, wait: Wait) -> str:
    """Give the cause that the Job bears; empty when it bears none."""
    annotations = sandbox.api.request("GET", wait.path)["metadata"].get("annotations", {})
    return str(json.loads(annotations.get(ANNOTATION_PENDING, "{}")).get("cause", ""))


def pods_of_job(sandbox: Sandbox, wait: Wait) -> list[dict[str, Any]]:
    return Scene(sandbox).pods_of(wait.trigger.job["name"], wait.trigger.job["namespace"])


@pytest.mark.case("C044")
def test_a_suspended_job_is_queued_without_a_limit(sandbox: Sandbox, begin: Callable[..., Wait]) -> None:
    wait = begin(**ROOMY, clocks={"queue_seconds": 0, "startup_seconds": 3}, task=SUSPENDED)
    wait.await_line("suspended")
    let_pass(4)
    assert wait.payloads == []
    Scene(sandbox).patch(wait.path, {"spec": {"suspend": False}})
    assert wait.conclude()["attempts"] == 1
