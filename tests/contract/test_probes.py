"""Probes of a container: what is asked when, and what an answer does."""

from __future__ import annotations

import socket
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.contract.pods import Document, Pods, conditions_of, end_of, holds, state_of, status_of

_LOOP = "while :; do sleep 0.1; done"
_DIES_AFTER_A_SECOND = f"trap 'exit 0' TERM; echo up; touch /v/alive; sleep 1; rm /v/alive; {_LOOP}"
_OFTEN = {"periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 10}
_ALIVE = {"exec": {"command": ["cat", "/v/alive"]}, **_OFTEN}
_NEVER = {"exec": {"command": ["false"]}, **_OFTEN}


def shown(container: Document, **spec: Any) -> dict[str, Any]:
    """A pod whose container has a volume /v for what its probes look at."""
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    return {"container": {**mounts, **container}, "volumes": [{"name": "v", "emptyDir": {}}], **spec}


def messages_of(pods: Pods, name: str, reason: str) -> list[str]:
    return [one["message"] for one in pods.events(name) if one["reason"] == reason]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def cases(pods: Pods) -> dict[str, str]:
    """Give the names of pods that run at the same time."""
    port = free_port()
    serving = f"echo hi > /v/index.html; cd /v; exec python3 -m http.server {port}"
    made: dict[str, tuple[str, dict[str, Any]]] = {
        "dies": (_DIES_AFTER_A_SECOND, shown({"livenessProbe": _ALIVE}, restartPolicy="OnFailure")),
        "dies for good": (
            f"trap '' TERM; {_LOOP}",
            shown(
                {"livenessProbe": {**_ALIVE, "terminationGracePeriodSeconds": 300}},
                terminationGracePeriodSeconds=2,
            ),
        ),
        "dies beside another": (
            f"trap '' TERM; {_LOOP}",
            {
                "containers": [
                    pods.container(
                        "main", f"trap '' TERM; {_LOOP}", livenessProbe={**_NEVER, "terminationGracePeriodSeconds": 2}
                    ),
                    pods.container("other", f"trap 'exit 0' TERM; {_LOOP}"),
                ],
                "terminationGracePeriodSeconds": 300,
            },
        ),
        "gets ready": (
            "trap 'exit 0' TERM; while :; do sleep 3; touch /v/alive; sleep 3; rm /v/alive; done",
            shown({"readinessProbe": _ALIVE}),
        ),
        "starts late": (
            f"trap 'exit 0' TERM; sleep 3; touch /v/alive; {_LOOP}",
            shown(
                {
                    "startupProbe": {**_ALIVE, "failureThreshold": 60},
                    "livenessProbe": _NEVER,
                    "readinessProbe": _ALIVE,
                }
            ),
        ),
        "never starts": (
            f"trap 'exit 0' TERM; {_LOOP}",
            shown({"startupProbe": {**_NEVER, "failureThreshold": 2}}, restartPolicy="Always"),
        ),
        "serves": (
            serving,
            shown(
                {
                    "ports": [{"name": "web", "containerPort": port}],
                    "readinessProbe": {"httpGet": {"port": "web", "path": "/index.html"}, "periodSeconds": 1},
                    "livenessProbe": {"tcpSocket": {"port": "web"}, **_OFTEN, "failureThreshold": 60},
                }
            ),
        ),
        "has no page": (
            serving.replace(str(port), str(elsewhere := free_port())),
            shown({"readinessProbe": {"httpGet": {"port": elsewhere, "path": "/no"}, "periodSeconds": 1}}),
        ),
        "listens nowhere": (
            _LOOP,
            shown({"readinessProbe": {"tcpSocket": {"port": free_port()}, "periodSeconds": 1}}),
        ),
        "is slow to say": (_LOOP, shown({"readinessProbe": {"exec": {"command": ["sleep", "5"]}}})),
        "can not be asked": (
            _LOOP,
            shown({"livenessProbe": {"exec": {"command": ["/no/such"]}, **_OFTEN}}),
        ),
    }
    return {case: pods.create(script, **spec) for case, (script, spec) in made.items()}


def test_container_that_is_not_alive_is_restarted_whatever_its_exit_code(cases: dict[str, str], pods: Pods) -> None:
    name = cases["dies"]
    status = status_of(pods.wait(name, lambda pod: status_of(pod).get("restartCount")))
    assert status["lastState"]["terminated"]["exitCode"] == 0
    assert pods.log(name, previous="true") == "up\n"
    words = "Liveness probe failed: cat: /v/alive: No such file or directory"
    unhealthy = pods.wait_for_event(name, "Unhealthy", words)
    assert (unhealthy["type"], unhealthy["involvedObject"]["fieldPath"]) == ("Warning", "spec.containers{main}")
    killing = pods.wait_for_event(name, "Killing", "Container main failed liveness probe, will be restarted")
    assert killing["type"] == "Normal"


def test_container_that_is_not_alive_ends_its_pod_where_none_is_restarted(cases: dict[str, str], pods: Pods) -> None:
    name = cases["dies for good"]
    pod = pods.ended(name)
    assert (pod["status"]["phase"], end_of(pod)["exitCode"], end_of(pod)["reason"]) == ("Failed", 137, "Error")
    assert status_of(pod)["restartCount"] == 0
    # It was the last to run: its whole pod is ended, in the pod's own time.
    assert messages_of(pods, name, "Killing") == ["Stopping container main"]


def test_container_that_is_not_alive_ends_alone_where_another_runs(cases: dict[str, str], pods: Pods) -> None:
    name = cases["dies beside another"]
    pod = pods.wait(name, lambda pod: "terminated" in state_of(pod))
    assert (pod["status"]["phase"], end_of(pod)["exitCode"]) == ("Running", 137)
    assert "running" in state_of(pod, "other")
    assert messages_of(pods, name, "Killing") == ["Container main failed liveness probe"]
    pods.delete(name)


def test_pod_is_ready_while_its_container_says_so(cases: dict[str, str], pods: Pods) -> None:
    name = cases["gets ready"]
    pod = pods.wait(name, lambda pod: "running" in state_of(pod) and not holds(pod, "Ready"))
    assert (status_of(pod)["ready"], status_of(pod)["started"]) == (False, True)
    assert conditions_of(pod)[2:4] == [
        ("Ready", "False", "ContainersNotReady"),
        ("ContainersReady", "False", "ContainersNotReady"),
    ]
    assert pod["status"]["conditions"][2]["message"] == "containers with unready status: [main]"
    pod = pods.wait(name, lambda pod: holds(pod, "Ready"))
    assert holds(pod, "ContainersReady")
    assert status_of(pod)["ready"]
    pod = pods.wait(name, lambda pod: not holds(pod, "Ready"))
    assert (pod["status"]["phase"], status_of(pod)["restartCount"]) == ("Running", 0)
    pods.wait_for_event(name, "Unhealthy", "Readiness probe failed: cat: /v/alive: No such file or directory")


def test_other_probes_wait_until_the_container_has_started(cases: dict[str, str], pods: Pods) -> None:
    name = cases["starts late"]
    end = end_of(pods.ended(name))
    assert end["exitCode"] == 0
    event = pods.wait_for_event(name, "Unhealthy", "Liveness probe failed: ")
    started, failed = (datetime.fromisoformat(one) for one in (end["startedAt"], event["firstTimestamp"]))
    assert failed - started >= timedelta(seconds=2)


def test_container_that_does_not_start_in_time_is_ended(cases: dict[str, str], pods: Pods) -> None:
    name = cases["never starts"]
    status = status_of(pods.wait(name, lambda pod: status_of(pod).get("restartCount")))
    assert status["lastState"]["terminated"]["exitCode"] == 0
    assert not status["started"]
    killing = "Container main failed startup probe, will be restarted"
    assert messages_of(pods, name, "Killing")[0] == killing
    pods.delete(name)


def test_container_is_asked_by_http_and_tcp_at_the_pod_s_address(cases: dict[str, str], pods: Pods) -> None:
    pod = pods.wait(cases["serves"], lambda pod: holds(pod, "Ready"))
    assert status_of(pod)["restartCount"] == 0
    missing = pods.running(cases["has no page"])
    pods.wait_for_event(missing["metadata"]["name"], "Unhealthy", "HTTP probe failed with statuscode: 404")
    assert not status_of(pods.get(missing["metadata"]["name"]))["ready"]
    closed = cases["listens nowhere"]
    event = pods.wait_for_event(closed, "Unhealthy", "connect: connection refused")
    address = pods.get(closed)["status"]["podIP"]
    assert event["message"].startswith(f"Readiness probe failed: dial tcp {address}:")


def test_probe_that_takes_too_long_has_failed(cases: dict[str, str], pods: Pods) -> None:
    words = 'Readiness probe failed: command timed out: "sleep 5" timed out after 1s'
    assert pods.wait_for_event(cases["is slow to say"], "Unhealthy", words)["message"] == words


def test_probe_that_can_not_be_asked_says_nothing_of_its_container(cases: dict[str, str], pods: Pods) -> None:
    name = cases["can not be asked"]
    event = pods.wait_for_event(name, "Unhealthy", "Liveness probe errored and resulted in unknown state: ")
    assert "rpc error: code = " in event["message"]
    pod = pods.get(name)
    assert (pod["status"]["phase"], status_of(pod)["restartCount"], holds(pod, "Ready")) == ("Running", 0, True)
