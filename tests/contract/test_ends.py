"""How containers and pods end, whatever kind of node they ran on."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from tests.contract.pods import Document, Pods, conditions_of, end_of, is_running, state_of, status_of

_LONG = "head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log; printf END >> /dev/termination-log"
_FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}
_MARK = secrets.token_hex(8)

ENDS: dict[str, dict[str, Any]] = {
    "success": {"script": "echo hello; printf result > /dev/termination-log"},
    "exit 3": {"script": "exit 3"},
    "segmentation fault": {"script": "sh -c 'kill -s SEGV $$$$'; exit $?"},
    "left behind": {"script": "sleep 100 & exit 42"},
    "left behind in a session of its own": {"script": f"setsid sh -c 'sleep 300; echo {_MARK}' & exit 0"},
    # The first process of a process namespace ignores signals that it has no handler for.
    "SIGTERM to itself": {"script": "kill -TERM $$$$; exit 9"},
    "long message": {"script": _LONG},
    "message of any bytes": {"script": "printf 'ab\\377\\376cd' > /dev/termination-log"},
    "log for a message": {"script": "seq 100; exit 1", "container": _FALLBACK},
    "no log after success": {"script": "seq 100", "container": _FALLBACK},
    "message before the log": {
        "script": "seq 100; printf mine > /dev/termination-log; exit 1",
        "container": _FALLBACK,
    },
    "no such program": {"container": {"command": ["/no/such"]}},
}

COMPLETED = [
    ("PodReadyToStartContainers", "False", "PodSandboxNotReady"),
    ("Initialized", "True", "PodCompleted"),
    ("Ready", "False", "PodCompleted"),
    ("ContainersReady", "False", "PodCompleted"),
    ("PodScheduled", "True", ""),
]
FAILED = [
    ("PodReadyToStartContainers", "False", "PodSandboxNotReady"),
    ("Initialized", "True", ""),
    ("Ready", "False", "PodFailed"),
    ("ContainersReady", "False", "PodFailed"),
    ("PodScheduled", "True", ""),
]


@pytest.fixture(scope="module")
def ended(pods: Pods) -> dict[str, Document]:
    """Give the pods of `ENDS`, which ran at the same time, as they ended."""
    names = {case: pods.create(**arguments) for case, arguments in ENDS.items()}
    return {case: pods.ended(name) for case, name in names.items()}


def test_success_is_told_with_times_image_and_the_container_s_message(ended: dict[str, Document], pods: Pods) -> None:
    pod = ended["success"]
    end, status = end_of(pod), status_of(pod)
    assert pod["status"]["phase"] == "Succeeded"
    assert (end["exitCode"], end["reason"], end["message"]) == (0, "Completed", "result")
    assert pod["status"]["startTime"] <= end["startedAt"] <= end["finishedAt"]
    assert end["containerID"] == status["containerID"]
    assert status["imageID"]
    assert (status["ready"], status["started"], status["restartCount"]) == (False, False, 0)
    assert pods.log(pod["metadata"]["name"]) == "hello\n"


def test_conditions_of_an_ended_pod_stand_in_order_with_their_reasons(ended: dict[str, Document]) -> None:
    assert conditions_of(ended["success"]) == COMPLETED
    assert conditions_of(ended["exit 3"]) == FAILED


def test_events_of_a_run_are_told_in_order(ended: dict[str, Document], pods: Pods) -> None:
    name = ended["success"]["metadata"]["name"]
    pods.wait_for_event(name, "Started", "Container started")
    told = [(one["reason"], one["type"], one["involvedObject"].get("fieldPath")) for one in pods.events(name)]
    assert told == [(reason, "Normal", "spec.containers{main}") for reason in ("Pulled", "Created", "Started")]


@pytest.mark.parametrize(
    ("case", "code", "reason"),
    [
        ("exit 3", 3, "Error"),
        ("segmentation fault", 139, "Error"),
        ("left behind", 42, "Error"),
        ("left behind in a session of its own", 0, "Completed"),
        ("SIGTERM to itself", 9, "Error"),
    ],
)
def test_exit_codes_are_the_program_s_own(ended: dict[str, Document], case: str, code: int, reason: str) -> None:
    end = end_of(ended[case])
    assert (end["exitCode"], end["reason"]) == (code, reason)
    assert ended[case]["status"]["phase"] == ("Failed" if code else "Succeeded")


def test_what_a_container_leaves_running_ends_with_it(ended: dict[str, Document]) -> None:
    assert ended["left behind in a session of its own"]
    assert not is_running(_MARK)


def test_command_that_does_not_exist_is_a_start_error_that_began_in_1970(
    ended: dict[str, Document], pods: Pods
) -> None:
    pod = ended["no such program"]
    end = end_of(pod)
    assert (end["exitCode"], end["reason"], end["startedAt"]) == (128, "StartError", "1970-01-01T00:00:00Z")
    assert "`/no/such`" in end["message"]
    assert "No such file or directory" in end["message"]
    event = pods.wait_for_event(pod["metadata"]["name"], "Failed", "Error: failed to create containerd task")
    assert event["type"] == "Warning"


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("long message", "x" * 4093 + "END"),
        ("message of any bytes", "ab\ufffd\ufffdcd"),
        ("log for a message", "".join(f"{n}\n" for n in range(21, 101))),
        ("no log after success", None),
        ("message before the log", "mine"),
    ],
)
def test_termination_message_is_the_tail_of_the_file_or_of_the_log(
    ended: dict[str, Document], case: str, message: str | None
) -> None:
    assert end_of(ended[case]).get("message") == message


def test_deadline_of_the_pod_fails_it_whatever_its_container_says(pods: Pods) -> None:
    handled = pods.create("trap 'exit 7' TERM; while :; do sleep 0.1; done", activeDeadlineSeconds=4)
    unhandled = pods.create("exec sleep 60", activeDeadlineSeconds=4, terminationGracePeriodSeconds=1)
    for name, code in ((handled, 7), (unhandled, 137)):
        pod = pods.ended(name)
        status, end = pod["status"], end_of(pod)
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        assert (end["exitCode"], end["reason"]) == (code, "Error")
        assert conditions_of(pod) == FAILED
        assert pods.wait_for_event(name, "DeadlineExceeded", status["message"])["type"] == "Normal"
        assert pods.wait_for_event(name, "Killing", "Stopping container main")["type"] == "Normal"


def test_containers_share_twelve_kib_of_messages(pods: Pods) -> None:
    script = "head -c 4096 /dev/zero | tr '\\0' x > /dev/termination-log"
    names = [f"c{number}" for number in range(4)]
    pod = pods.ended(pods.create(containers=[pods.container(name, script) for name in names]))
    assert [len(end_of(pod, name)["message"]) for name in names] == [3072] * 4


def test_init_containers_run_in_order_and_a_failing_one_keeps_the_rest_from_running(pods: Pods) -> None:
    inits = [pods.container(*one) for one in (("one", "exit 0"), ("two", "exit 7"), ("three", "true"))]
    pod = pods.ended(pods.create(initContainers=inits))
    assert pod["status"]["phase"] == "Failed"
    assert (end_of(pod, "one")["exitCode"], end_of(pod, "two")["exitCode"]) == (0, 7)
    assert state_of(pod, "three") == {"waiting": {"reason": "PodInitializing"}}
    assert state_of(pod) == {"waiting": {"reason": "PodInitializing"}}
    assert conditions_of(pod) == [
        ("PodReadyToStartContainers", "False", "PodSandboxNotReady"),
        ("Initialized", "False", "ContainersNotInitialized"),
        ("Ready", "False", "PodFailed"),
        ("ContainersReady", "False", "PodFailed"),
        ("PodScheduled", "True", ""),
    ]
