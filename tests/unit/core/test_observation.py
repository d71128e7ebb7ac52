"""What Kubernetes writes is read as it is meant, and nothing that it may write is read as more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.core.kubernetes_documents import (
    JOB_UID,
    NODE,
    complete,
    condition,
    container,
    disruption,
    failed_pod,
    job,
    moment,
    pod,
    running,
    succeeded_pod,
    terminated,
    waiting,
)

from gpu_training.core.documents import parse_time
from gpu_training.core.observation import observe, observe_job
from gpu_training.core.pods import ContainerState, observe_pod

pytestmark = pytest.mark.core


@pytest.mark.case("C030")
@pytest.mark.parametrize("status", ["False", "Unknown", "true", "", True, 1, None])
def test_a_condition_holds_only_when_its_status_is_the_text_true(status: object) -> None:
    document = job({**condition("Complete"), "status": status})
    assert observe_job(document).condition("Complete") is None
    assert not observe_job(document).ended


def test_a_job_is_read_with_its_counts_marks_and_final_condition() -> None:
    seen = observe_job(complete(second=13))
    assert (seen.uid, seen.succeeded, seen.completions, seen.ended) == (JOB_UID, 1, 1, True)
    assert seen.final is not None
    assert (seen.final.reason, seen.final.changed_at) == ("CompletionsReached", moment(13))
    assert (seen.created_at, seen.started_at) == (moment(0), moment(0))
    assert seen.labels == {"gpu-training.io/model": "flight-delay"}


def test_what_logs_say_is_handed_on() -> None:
    assert observe(job(), [], findings={"p": "out-of-memory"}).findings == {"p": "out-of-memory"}
    assert observe(job(), []).findings == {}


def test_a_suspended_job_has_no_start() -> None:
    document = job(
        condition("Suspended", reason="JobSuspended", message="Job suspended"),
        spec={"suspend": True},
        status={"startTime": None},
    )
    seen = observe_job(document)
    assert (seen.suspended, seen.started_at, seen.suspended_at) == (True, None, moment(10))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (waiting("ContainerCreating"), (ContainerState.WAITING, "ContainerCreating", None)),
        (running(), (ContainerState.RUNNING, "", None)),
        (terminated(137, reason="OOMKilled"), (ContainerState.TERMINATED, "OOMKilled", 137)),
        ({}, (ContainerState.UNKNOWN, "", None)),
        ({"terminated": None}, (ContainerState.UNKNOWN, "", None)),
        ({"terminated": {"exitCode": "0"}}, (ContainerState.TERMINATED, "", None)),
    ],
)
def test_a_container_is_in_one_state(state: dict[str, object], expected: tuple[object, ...]) -> None:
    [seen] = observe_pod(pod("Running", container(state))).containers
    assert (seen.state, seen.reason, seen.exit_code) == expected


def test_a_container_that_never_started_has_no_start() -> None:
    seen = observe_pod(failed_pod()).training
    assert seen is not None
    assert (seen.started_at, seen.finished_at) == (moment(2), moment(11))
    never = observe_pod(pod("Failed", container(terminated(128, reason="StartError", started=None)))).training
    assert never is not None
    assert never.started_at is None


@pytest.mark.case("C022")
@pytest.mark.parametrize(("restarts", "explains"), [("Always", "training"), ("Never", "beside")])
def test_how_a_sidecar_ends_explains_no_failure(restarts: str, explains: str) -> None:
    """The kubelet ends it with a signal once the training has ended."""
    ended = [container(terminated(137), name="beside")]
    document = pod("Failed", container(terminated(1)), init=ended)
    document["spec"]["initContainers"] = [{"name": "beside", "restartPolicy": restarts}]
    failure = observe_pod(document).failure

    assert failure is not None
    assert failure.name == explains


def test_a_pod_turned_away_at_admission_is_read_by_phase_and_reason() -> None:
    """It has neither conditions nor container statuses."""
    turned_away = pod(
        "Failed",
        scheduled=None,
        status={
            "reason": "OutOfnvidia.com/gpu",
            "message": "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 3, used: 2, "
            "capacity: 2",
            "startTime": "2026-11-30T19:24:01Z",
        },
    )
    seen = observe_pod(turned_away)
    assert (seen.phase, seen.reason, seen.containers, seen.training) == ("Failed", "OutOfnvidia.com/gpu", (), None)
    assert seen.scheduled_at == moment(1)


@pytest.mark.parametrize(
    ("document", "disrupted"),
    [
        (pod("Running", container(running()), conditions=[disruption(9)]), True),
        (failed_pod(143, conditions=[disruption(9)]), True),
        (failed_pod(143, conditions=[disruption(11)]), True),  # the API keeps whole seconds
        (failed_pod(1, conditions=[disruption(12)]), False),
        (failed_pod(1, conditions=[{**disruption(9), "status": "False"}]), False),
        (succeeded_pod("", conditions=[disruption(9)]), True),
        (succeeded_pod(conditions=[disruption(900)]), False),
        # A lost node's kubelet never tells how the container ended.
        (pod("Failed", container(running()), conditions=[disruption(60, "DeletionByPodGC")]), True),
        # The init container failed by itself; the training container still waits.
        (
            pod(
                "Failed",
                container(waiting("PodInitializing")),
                init=[container(terminated(1, finished=5), name="download")],
                conditions=[disruption(30)],
            ),
            False,
        ),
    ],
)
def test_a_disruption_counts_only_before_the_end_that_it_would_explain(
    document: dict[str, object], disrupted: bool
) -> None:
    assert (observe_pod(document).disruption is not None) is disrupted


@pytest.mark.case("C003")
@pytest.mark.case("C007")
def test_only_pods_of_this_very_job_are_its_attempts() -> None:
    """Pods of an older Job of the lineage, and pods that nobody made, bear the same labels of ours."""
    ours = succeeded_pod()
    orphan = failed_pod(name="orphan")
    del orphan["metadata"]["ownerReferences"]
    others = [failed_pod(name="old", owner="another-uid"), failed_pod(name="by-hand", owner=None)]
    seen = observe(complete(), [*others, ours, orphan])
    assert [found.name for found in seen.pods] == [ours["metadata"]["name"], "orphan"]


def test_pods_come_by_age_and_the_live_document_of_a_pod_wins_over_the_one_last_seen() -> None:
    first = pod("Running", container(running()), name="b", created=0)
    second = pod("Pending", name="a", created=20, scheduled=None)
    seen = observe(job(), [second, failed_pod(name="b", created=0)], gone_pods=[first])
    assert [(found.name, found.phase, found.gone) for found in seen.pods] == [
        ("b", "Failed", False),
        ("a", "Pending", False),
    ]


def test_gpus_are_what_the_scheduler_counts() -> None:
    document = pod(gpus=2)
    document["spec"]["containers"].append({"name": "proxy", "resources": {"limits": {"nvidia.com/gpu": 1}}})
    document["spec"]["initContainers"] = [{"name": "check", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]
    assert observe_pod(document).gpus == 4
    document["spec"]["initContainers"] = []
    assert observe_pod(document).gpus == 3
    assert observe_pod(pod()).node == NODE


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-30T19:24:00Z", moment(0)),
        ("2026-11-30T20:24:00+01:00", moment(0)),
        ("2026-11-30T19:24:00.250000Z", moment(0) + 0.25),
        ("2026-11-30T19:24:00.123456789Z", moment(0) + 0.123456),
        (datetime(2026, 11, 30, 19, 24, tzinfo=UTC), moment(0)),
        ("1970-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("2026-11-30T19:24:00", None),
        (datetime(2026, 11, 30, 19, 24), None),
        ("yesterday", None),
        ("", None),
        (1796066640, None),
        (None, None),
    ],
)
def test_a_time_is_read_only_when_it_says_a_moment(value: object, expected: float | None) -> None:
    assert parse_time(value) == expected
