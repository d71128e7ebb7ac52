"""Why a pod on a node has not started, and which of a gang's pods speaks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.core.kubernetes_documents import (
    JOB_NAME,
    NODE,
    condition,
    container,
    disruption,
    job,
    pod,
    running,
    terminated,
    waiting,
)
from tests.unit.core.pending_world import (
    DEDICATED,
    UNMATCHED,
    around,
    event,
    node,
    report_of,
    tenant,
    told,
    waiting_pod,
)
from tests.unit.core.test_pending_job import NO_ACCOUNT, QUOTA, refusal

from gpu_training.core.pending_cause import Cause, Cure

pytestmark = pytest.mark.core

IMAGE = "registry.example.com/trainer:1"
BACK_OFF = f'Back-off pulling image "{IMAGE}"'
NOT_FOUND = (
    f'Failed to pull image "{IMAGE}": failed to pull and unpack image "{IMAGE}": failed to resolve reference '
    f'"{IMAGE}": {IMAGE}: not found'
)
RATE_LIMITED = (
    f'Failed to pull image "{IMAGE}": failed to copy: unexpected status code https://registry.example.com/v2/: 429 Too '
    "Many Requests - Server message: toomanyrequests: You have reached your pull rate limit."
)
NO_SECRET = 'MountVolume.SetUp failed for volume "v" : secret "nosec" not found'
TIMED_OUT = "Unable to attach or mount volumes: unmounted volumes=[v], timed out waiting for the condition"
OTHER_MOUNT = 'MountVolume.SetUp failed for volume "w" : mount failed: exit status 32, odd words'
IN_USE = 'Multi-Attach error for volume "pvc-1" Volume is already exclusively attached to one node'
ATTACHED = 'AttachVolume.Attach succeeded for volume "pvc-1"'
WELL = around([node(NODE)])
CREATING = container(waiting("ContainerCreating"))


def starting(*containers: Any, **more: Any) -> Any:
    return pod("Pending", *(containers or (CREATING,)), **more)


def said(*messages: tuple[str, str], first: int = 2, of: Any = None) -> Any:
    """Give the surroundings in which a kubelet says these, a second apart."""
    about = starting() if of is None else of
    events = [
        event(about, reason, message, source="kubelet", second=first + n)
        for n, (reason, message) in enumerate(messages)
    ]
    return around([node(NODE)], events=events)


@pytest.mark.case("C038")
@pytest.mark.parametrize(
    ("reason", "message", "cause", "cure"),
    [
        ("ImagePullBackOff", f"{BACK_OFF}: ErrImagePull: {NOT_FOUND}", Cause.IMAGE_NOT_FOUND, Cure.NEVER),
        ("ErrImagePull", NOT_FOUND, Cause.IMAGE_NOT_FOUND, Cure.NEVER),
        ("InvalidImageName", 'couldn\'t parse image name "Bad:::x"', Cause.IMAGE_NAME_INVALID, Cure.NEVER),
        ("CreateContainerConfigError", 'secret "nosec" not found', Cause.SECRET_MISSING, Cure.NEVER),
        ("CreateContainerConfigError", 'configmap "nocm" not found', Cause.CONFIG_MAP_MISSING, Cure.NEVER),
        ("NeverHeardOf", "x", Cause.CONTAINER_NOT_CREATED, Cure.WAITING),
    ],
)
def test_what_a_container_waits_for_is_told(reason: str, message: str, cause: Cause, cure: Cure) -> None:
    for held in (
        starting(container(waiting(reason, message))),
        starting(CREATING, init=[container(waiting(reason, message), name="fetch")]),
    ):
        report = report_of([held], WELL)
        assert (report.cause, report.cure) == (cause, cure)
        assert report.summary.startswith(f"On {NODE}: ") or reason == "NeverHeardOf"
        assert report.subject.endswith(f" on {NODE}")
        assert report.remedy


@pytest.mark.case("C039")
def test_where_the_container_only_says_back_off_the_event_before_it_says_why() -> None:
    held = starting(container(waiting("ImagePullBackOff", BACK_OFF)))
    events = said(("Pulling", f'Pulling image "{IMAGE}"'), ("Failed", RATE_LIMITED), ("Failed", "Error: ErrImagePull"))
    report = report_of([held], events)
    assert (report.cause, report.cure) == (Cause.IMAGE_RATE_LIMITED, Cure.TRANSIENT)
    assert report.words == RATE_LIMITED
    assert report_of([held], WELL).cause is Cause.IMAGE_PULL_FAILED


@pytest.mark.parametrize(
    ("messages", "cause"),
    [
        ([("FailedMount", NO_SECRET)], Cause.SECRET_MISSING),
        ([("FailedMount", NO_SECRET), ("FailedMount", TIMED_OUT)], Cause.SECRET_MISSING),
        ([("FailedMount", TIMED_OUT)], Cause.VOLUME_MOUNT_FAILED),
        ([("FailedMount", NO_SECRET), ("Pulling", f'Pulling image "{IMAGE}"')], Cause.IMAGE_PULLING),
        ([("Pulling", f'Pulling image "{IMAGE}"'), ("Pulled", f'Successfully pulled image "{IMAGE}"')], Cause.WAITING),
        ([("FailedMount", NO_SECRET), ("Pulled", "x"), ("Created", "x")], Cause.WAITING),
        ([("FailedMount", NO_SECRET), ("FailedMount", OTHER_MOUNT)], Cause.VOLUME_MOUNT_FAILED),
        ([("FailedMount", NO_SECRET), ("Failed", f'Failed to pull image "{IMAGE}": odd')], Cause.IMAGE_PULL_FAILED),
        ([("FailedMount", NO_SECRET), ("FailedCreatePodSandBox", "odd")], Cause.CONTAINER_NOT_CREATED),
        ([("Failed", NOT_FOUND), ("Failed", f'Failed to pull image "{IMAGE}": odd')], Cause.IMAGE_PULL_FAILED),
        ([("Failed", NOT_FOUND), ("Failed", "Error: ErrImagePull"), ("BackOff", BACK_OFF)], Cause.IMAGE_NOT_FOUND),
        ([("Failed", 'Error: secret "nosec" not found'), ("Failed", "Error: odd")], Cause.CONTAINER_NOT_CREATED),
        ([("FailedAttachVolume", IN_USE), ("FailedMount", TIMED_OUT)], Cause.VOLUME_IN_USE),
        ([("FailedAttachVolume", IN_USE), ("SuccessfulAttachVolume", ATTACHED)], Cause.WAITING),
        (
            [("FailedAttachVolume", IN_USE), ("SuccessfulAttachVolume", ATTACHED), ("FailedMount", TIMED_OUT)],
            Cause.VOLUME_MOUNT_FAILED,
        ),
        (
            [("FailedAttachVolume", IN_USE), ("SuccessfulAttachVolume", ATTACHED.replace("pvc-1", "pvc-2"))],
            Cause.VOLUME_IN_USE,
        ),
    ],
)
def test_the_kubelets_newest_words_count_back_to_its_last_step(messages: Any, cause: Cause) -> None:
    assert report_of([starting()], said(*messages)).cause is cause


@pytest.mark.parametrize(("second", "cause"), [(152, Cause.SECRET_MISSING), (153, Cause.WAITING)])
def test_what_no_waiting_cures_is_said_again_or_may_have_been_cured(second: int, cause: Cause) -> None:
    assert report_of([starting()], said(("FailedMount", NO_SECRET)), second=second).cause is cause


@pytest.mark.parametrize(("second", "cause"), [(332, Cause.IMAGE_NOT_FOUND), (333, Cause.IMAGE_PULL_FAILED)])
def test_an_image_is_tried_again_after_five_minutes_at_most(second: int, cause: Cause) -> None:
    held = starting(container(waiting("ImagePullBackOff", BACK_OFF)))
    assert report_of([held], said(("Failed", NOT_FOUND)), second=second).cause is cause


def test_a_container_that_is_held_has_got_its_volumes() -> None:
    held = starting(container(waiting("ImagePullBackOff", BACK_OFF)))
    assert report_of([held], said(("FailedMount", NO_SECRET))).cause is Cause.IMAGE_PULL_FAILED


def test_words_about_another_pod_of_that_name_or_before_it_had_its_node_do_not_count() -> None:
    earlier = event(starting(), "FailedMount", NO_SECRET, uid="uid-of-the-last-one")
    assert report_of([starting()], around([node(NODE)], events=[earlier])).cause is Cause.WAITING
    stale = said(("FailedMount", NO_SECRET), first=2)
    assert report_of([starting(scheduled=63)], stale).cause is Cause.WAITING


def test_the_clock_of_a_node_may_be_behind_by_a_minute() -> None:
    early = said(("FailedMount", NO_SECRET), first=2)
    assert report_of([starting(scheduled=62)], early).cause is Cause.SECRET_MISSING


def test_two_words_of_one_second_are_in_the_order_of_the_steps() -> None:
    pulling = event(starting(), "Pulling", f'Pulling image "{IMAGE}"', second=5)
    mount = event(starting(), "FailedMount", NO_SECRET, second=5)
    for events in ([pulling, mount], [mount, pulling]):
        assert report_of([starting()], around([node(NODE)], events=events)).cause is Cause.IMAGE_PULLING


@pytest.mark.parametrize("containers", [(), (CREATING,)])
def test_a_pod_on_a_silent_node_is_told_so(containers: Any) -> None:
    for lost in (node(NODE, ready="Unknown"), node(NODE, ready="False")):
        report = report_of([starting(*containers)], around([lost]))
        assert (report.cause, report.cure) == (Cause.NODES_NOT_READY, Cure.TRANSIENT)
        assert NODE in report.summary
    gone = report_of([starting(*containers)], around([node("another")]))
    assert (gone.cause, "does not exist" in gone.summary) == (Cause.NODES_NOT_READY, True)
    just_come = report_of([starting(*containers, scheduled=115)], around([node("another")]))
    assert just_come.cause is Cause.WAITING
    unseen = around(None, events=[event(starting(), "NodeNotReady", "Node is not ready", second=60)])
    assert report_of([starting(*containers)], unseen).cause is Cause.NODES_NOT_READY


def test_an_attempt_that_can_not_be_ended_on_a_silent_node_keeps_the_next_one_waiting() -> None:
    stuck = pod("Running", container(running()), deleting=True, conditions=[disruption(60, "DeletionByTaintManager")])
    report = report_of([stuck], around([node(NODE, ready="Unknown")]))
    assert (report.cause, report.cure) == (Cause.NODES_NOT_READY, Cure.TRANSIENT)
    assert "next attempt" in report.summary
    assert "Node object" in report.remedy
    assert told([stuck], WELL) is None
    assert told([stuck], around(None)) is None


@pytest.mark.parametrize(("second", "says"), [(10, "It starts on"), (12, "whose kubelet has not said anything")])
def test_a_kubelet_that_takes_nothing_up_is_told_of(second: int, says: str) -> None:
    untaken = pod("Pending", status={"containerStatuses": []})
    report = report_of([untaken], WELL, second=second)
    assert (report.cause, report.cure) == (Cause.WAITING, Cure.TRANSIENT)
    assert says in report.summary


def test_an_init_container_that_runs_is_named() -> None:
    waits = container(waiting("PodInitializing"))
    report = report_of([starting(waits, init=[container(running(), name="fetch")])], WELL)
    assert (report.cause, report.cure) == (Cause.WAITING, Cure.TRANSIENT)
    assert "fetch" in report.summary


@pytest.mark.parametrize("state", [running(), terminated(0), terminated(1)])
def test_nothing_is_told_of_what_runs_or_has_ended(state: Any) -> None:
    assert told([pod("Running", container(state))], around([node(NODE, ready="False")])) is None
    assert told([pod("Running", container(running()), deleting=True)], WELL) is None


def gang(parallelism: int = 3, **status: Any) -> Any:
    spec = {"parallelism": parallelism, "completions": parallelism, "completionMode": "Indexed"}
    return job(spec=spec, status=status)


def member(number: int, *containers: Any, phase: str = "Running", **more: Any) -> Any:
    return pod(phase, *(containers or (container(running()),)), name=f"{JOB_NAME}-{number}", index=number, **more)


def waiting_member(number: int, *args: Any) -> Any:
    return waiting_pod(*args, name=f"{JOB_NAME}-{number}", index=number)


def test_of_a_gang_the_pod_that_is_worst_off_speaks() -> None:
    nodes = around([node(NODE), node("full", gpus=1)], [tenant(on="full", gpus=1), tenant("b", on=NODE, gpus=4)])
    no_image = member(0, container(waiting("ErrImagePull", NOT_FOUND)), phase="Pending")
    pulling = member(1, phase="Pending", status={"containerStatuses": []})
    unscheduled = waiting_member(2)
    for pods, cause, subject in (
        ([member(0), pulling, unscheduled], Cause.GPUS_TAKEN, f"pod {JOB_NAME}-2"),
        ([no_image, pulling, unscheduled], Cause.IMAGE_NOT_FOUND, f"pod {JOB_NAME}-0 on {NODE}"),
        ([member(0), pulling, member(2)], Cause.WAITING, f"pod {JOB_NAME}-1 on {NODE}"),
    ):
        report = report_of(pods, nodes, of=gang())
        assert (report.cause, report.subject) == (cause, subject)
        assert report == report_of(list(reversed(pods)), nodes, of=gang())
    assert told([member(0), member(1), member(2)], nodes, of=gang()) is None


def test_what_one_pod_of_a_gang_can_never_have_does_not_end_those_that_train() -> None:
    lacks = member(0, container(waiting("ErrImagePull", NOT_FOUND)), phase="Pending")
    unscheduled = waiting_member(1, UNMATCHED)
    refused = around([node(NODE)], events=[refusal(NO_ACCOUNT, second=1)])
    elsewhere = around([node(NODE, taints=[DEDICATED])])
    others = [member(2, container(terminated(1)), phase="Failed"), member(2, deleting=True)]
    for pods, seen, cause in (
        ([lacks], WELL, Cause.IMAGE_NOT_FOUND),
        ([unscheduled], elsewhere, Cause.TAINT_NOT_TOLERATED),
        ([], refused, Cause.SERVICE_ACCOUNT_MISSING),
    ):
        trains = report_of([*pods, member(2)], seen, of=gang())
        assert (trains.cause, trains.cure) == (cause, Cure.WAITING)
        for other in others:
            report = report_of([*pods, other], seen, of=gang())
            assert (report.cause, report.cure) == (cause, Cure.NEVER)
            assert report.words == trains.words


@pytest.mark.parametrize("message", [QUOTA, NO_ACCOUNT])
def test_a_pod_that_a_gang_lacks_is_told_of(message: str) -> None:
    seen = around([node(NODE)], events=[refusal(message, second=1)])
    two = [member(0), member(1)]
    assert report_of(two, seen, of=gang()).subject.startswith("Job ")
    assert told([*two, member(2)], seen, of=gang()) is None
    assert told(two, seen, of=gang(succeeded=1)) is None


def test_a_waiting_pods_own_claims_do_not_count_against_it() -> None:
    """Room that is meant for the training's own pod is its to take: it has only not been bound yet."""
    own = tenant(f"{JOB_NAME}-2", on=NODE, gpus=4, nominated=True)
    report = report_of([waiting_member(2)], around([node(NODE, gpus=1)], [own]), of=gang())
    assert report.cause is Cause.GPUS_TAKEN
    assert f"there is room on {NODE}" in report.summary


def test_pods_that_failed_by_themselves_do_not_speak() -> None:
    ended = pod(
        "Failed", container(terminated(1)), name=f"{JOB_NAME}-0", conditions=[condition("Ready", status="False")]
    )
    report = report_of([ended, waiting_member(1)], around([node(NODE, gpus=1)], [tenant(on=NODE)]))
    assert report.subject == f"pod {JOB_NAME}-1"
