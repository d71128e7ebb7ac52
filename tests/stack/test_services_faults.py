"""Airflow's services die, freeze and come back in the middle of a training: it is one training, and one result."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.stack.trainings import Training, wait_until

from sandbox.processes import is_alive
from stack import process_tree
from stack.lifecycle import Stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

Begin = Callable[[int], Training]


def assert_one_training_and_one_version(training: Training, job_uid: str) -> None:
    wait_until(lambda: training.run_state() in ("success", "failed"), "the run has ended")
    assert training.run_state() == "success", training.log()
    result = training.result("train")
    assert (result["job_uid"], result["attempts"]) == (job_uid, 1)
    assert [made_by for made_by, _ in training.creations()] == [job_uid]
    assert training.tries() == {"resolve": 1, "train": 1, "register": 1, "clean_up": 1}
    assert training.result("register")["reused"] is False
    assert training.is_gone()


def test_the_only_scheduler_killed_and_restarted_goes_on_with_the_run(begin: Begin, stack: Stack) -> None:
    training = begin(101)
    job_uid = training.told()["job_uid"]
    with training.held():
        scheduler = stack.service("scheduler-1")
        first, *executor = process_tree.members(scheduler.pid)
        scheduler.kill(alone=True)
        assert not scheduler.is_healthy()
        assert not is_alive(first.pid, first.start)
        survivors = [process for process in executor if is_alive(process.pid, process.start)]
        assert survivors
        scheduler.restart()
        assert not [process for process in survivors if is_alive(process.pid, process.start)]
        scheduler.await_healthy()
    assert_one_training_and_one_version(training, job_uid)


def test_frozen_and_killed_triggerers_and_a_killed_scheduler_hand_over_one_training(
    begin: Begin, replicated_stack: Stack
) -> None:
    training = begin(102)
    job_uid = training.told()["job_uid"]
    with training.held():
        wait_until(training.is_watched, "a trigger watches the training")
        watcher = training.watcher()
        triggerer = replicated_stack.service(watcher)
        triggerer.pause()
        wait_until(lambda: training.watcher() not in ("", watcher), "the other triggerer has taken the training over")
        triggerer.resume()
        # It is told to kill its trigger, which could mean that somebody wants the training to end.
        wait_until(lambda: "Leaving Job" in training.log(), "the one that was frozen has let go of the training")
        assert training.is_training()

        watcher = training.watcher()
        replicated_stack.service(watcher).kill()
        # The one that made the Job.
        replicated_stack.service(training.task()["unixname"]).kill()
        wait_until(lambda: training.watcher() not in ("", watcher), "the other triggerer has taken the training over")
        assert training.is_training()
    assert_one_training_and_one_version(training, job_uid)
