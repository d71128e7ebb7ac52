"""A node's program that is killed and started again finds its pods as they are, and ends what is unwanted by then."""

from __future__ import annotations

import secrets

from tests.contract.pods import DEADLINE_S, Pods, end_of, holds, is_running, status_of

from sandbox.waiting import wait_for


def test_killed_node_s_successor_finds_its_containers_and_their_ends(pods: Pods) -> None:
    mark = secrets.token_hex(8)
    running = pods.create("for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.5; done; exit 6")
    ending = pods.create(f": {mark}; sleep 1; printf late > /dev/termination-log; exit 5")
    steady = pods.create("trap 'exit 3' TERM; while :; do sleep 0.1; done")
    unwanted_mark = secrets.token_hex(8)
    unwanted = pods.create(f": {unwanted_mark}; sleep 600")
    for name in (running, ending, steady, unwanted):
        pods.running(name)
    since = pods.wait(steady, lambda pod: holds(pod, "Ready"))
    with pods.node.down():
        pods.delete(unwanted, gracePeriodSeconds=0)
        wait_for(lambda: not is_running(mark), DEADLINE_S, "the end that nobody sees")
        assert is_running(unwanted_mark)
    end = end_of(pods.ended(ending))
    assert (end["exitCode"], end["message"]) == (5, "late")
    pod = pods.ended(running)
    assert (end_of(pod)["exitCode"], status_of(pod)["restartCount"]) == (6, 0)
    assert pods.log(running) == "".join(f"{n}\n" for n in range(1, 9))
    wait_for(lambda: not is_running(unwanted_mark), DEADLINE_S, "the end of the pod that was removed meanwhile")
    # What did not change is told with the times that it had.
    assert pods.get(steady)["status"]["conditions"] == since["status"]["conditions"]
    assert status_of(pods.get(steady))["containerID"] == status_of(since)["containerID"]
    pods.delete(steady)
    pods.gone(steady)
