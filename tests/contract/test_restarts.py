"""Containers that are run again: when, how that is told, and the log of the run before."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.contract.pods import DEADLINE_S, Pods, end_of, state_of, status_of

from sandbox.waiting import wait_for

_MOUNT = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}


@pytest.fixture(scope="module", autouse=True)
def prepared(pods: Pods) -> str:
    """Give a pod whose init container fails once."""
    return pods.create(
        "exit 0",
        initContainers=[pods.container("prepare", "[ -e /v/done ] || { touch /v/done; exit 1; }", **_MOUNT)],
        volumes=[{"name": "v", "emptyDir": {}}],
        restartPolicy="OnFailure",
    )


def test_failed_container_restarts_at_once_then_after_ten_seconds(pods: Pods) -> None:
    script = "echo run >> /v/runs; n=$(wc -l < /v/runs); echo this is $n; [ $n -ge 3 ] || exit 1; sleep 3"
    name = pods.create(
        script,
        container=_MOUNT,
        volumes=[{"name": "v", "emptyDir": {}}],
        restartPolicy="OnFailure",
    )
    forever = pods.create(restartPolicy="Always")
    where = f"{name}_{pods.namespace}({pods.get(name)['metadata']['uid']})"
    pods.wait_for_event(name, "BackOff", f"Back-off restarting failed container main in pod {where}")
    pods.wait_for_event(forever, "BackOff", "Back-off restarting failed container main")
    pod = pods.get(name)
    assert pod["status"]["phase"] == "Running"
    assert status_of(pod)["restartCount"] == 1
    assert pods.log(name) == "this is 2\n"
    # A kubelet says that it waits when it next looks at the pod, which may be only when the wait is over.
    message = f"back-off 10s restarting failed container=main pod={where}"
    assert state_of(pod).get("waiting") in (None, {"reason": "CrashLoopBackOff", "message": message})
    pods.wait(forever, lambda pod: status_of(pod)["restartCount"] == 2)
    assert status_of(pods.get(forever))["lastState"]["terminated"]["exitCode"] == 0
    pods.wait_for_log(name, "this is 3\n")
    assert pods.log(name, previous="true") == "this is 2\n"
    pod = pods.ended(name)
    status = status_of(pod)
    assert (pod["status"]["phase"], status["restartCount"]) == ("Succeeded", 2)
    before = status["lastState"]["terminated"]
    assert before["exitCode"] == 1
    times = [datetime.fromisoformat(one) for one in (before["finishedAt"], end_of(pod)["startedAt"])]
    assert timedelta(seconds=9) <= times[1] - times[0] <= timedelta(seconds=30)
    # One run that ended is kept of each container.
    wait_for(
        lambda: pods.log(name, previous="true").startswith("unable to retrieve container logs for "),
        DEADLINE_S,
        "the log of the run before to be gone",
    )
    assert pods.log(name) == "this is 3\n"


def test_init_container_that_failed_is_run_again_where_the_pod_says_so(prepared: str, pods: Pods) -> None:
    pod = pods.ended(prepared)
    assert pod["status"]["phase"] == "Succeeded"
    assert status_of(pod, "prepare")["restartCount"] == 1
    assert end_of(pod, "prepare")["exitCode"] == 0
    assert state_of(pod)["terminated"]["exitCode"] == 0
