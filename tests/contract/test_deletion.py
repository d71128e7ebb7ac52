"""How a pod is taken from its node: with grace, without, and how that is marked."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.contract.pods import DEADLINE_S, Pods, conditions_of, end_of, is_running

from sandbox.waiting import wait_for

_KEPT = {"finalizers": ["example.com/watch"]}
"""Keeps the object of a pod that was deleted, so that its end can be read."""


@pytest.fixture(scope="module", autouse=True)
def deleted_twice(pods: Pods) -> tuple[str, datetime]:
    """Give a pod that ignores SIGTERM and was deleted with 8 seconds of grace, then with 1, and when that was."""
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    name = pods.create(script, terminationGracePeriodSeconds=8, metadata=_KEPT)
    pods.wait_for_log(name, "up\n")
    pods.delete(name)
    pods.wait_for_event(name, "Killing", "Stopping container main")
    pods.delete(name, gracePeriodSeconds=1)
    return name, datetime.now(UTC)


def test_program_finishes_within_its_grace_and_the_pod_is_removed(pods: Pods) -> None:
    name = pods.create(
        "trap 'echo saving; sleep 1; exit 85' TERM; echo up; while :; do sleep 0.1; done", metadata=_KEPT
    )
    pods.wait_for_log(name, "up\n")
    pods.delete(name)
    pod = pods.ended(name)
    assert (pod["status"]["phase"], end_of(pod)["exitCode"], end_of(pod)["reason"]) == ("Failed", 85, "Error")
    assert pods.wait_for_event(name, "Killing", "Stopping container main")["type"] == "Normal"
    # The container is gone although the object is not, and a kubelet answers this with status 200.
    wait_for(lambda: "unable to retrieve container logs for " in pods.log(name), DEADLINE_S, "the log to be gone")
    pods.let_go(name)
    pods.gone(name)


def test_program_that_ignores_sigterm_is_killed_when_its_grace_is_over(pods: Pods) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 0.1; done"
    name = pods.create(script, terminationGracePeriodSeconds=2, metadata=_KEPT)
    pods.wait_for_log(name, "up\n")
    begun = time.monotonic()
    pods.delete(name)
    end = end_of(pods.ended(name))
    assert (end["exitCode"], end["reason"]) == (137, "Error")
    assert 1.5 < time.monotonic() - begun < 8
    pods.let_go(name)


def test_forced_deletion_ends_the_process_too(pods: Pods) -> None:
    mark = secrets.token_hex(8)
    name = pods.create(f"trap '' TERM; : {mark}; while :; do sleep 0.1; done")
    pods.running(name)
    pods.delete(name, gracePeriodSeconds=0)
    assert not pods.exists(name)
    wait_for(lambda: not is_running(mark), DEADLINE_S, "the end of the process")


def test_eviction_marks_the_pod_and_takes_it_away(pods: Pods) -> None:
    name = pods.create("trap 'exit 143' TERM; echo up; while :; do sleep 0.1; done", metadata=_KEPT)
    pods.wait_for_log(name, "up\n")
    pods.evict(name)
    pod = pods.ended(name)
    assert ("DisruptionTarget", "True", "EvictionByEvictionAPI") in conditions_of(pod)
    assert end_of(pod)["exitCode"] == 143
    pods.let_go(name)
    pods.gone(name)


def test_second_deletion_that_grants_less_does_not_hasten_the_end(
    deleted_twice: tuple[str, datetime], pods: Pods
) -> None:
    name, when = deleted_twice
    end = end_of(pods.ended(name))
    assert end["exitCode"] == 137
    assert datetime.fromisoformat(end["finishedAt"]) - when > timedelta(seconds=4)
    pods.let_go(name)
