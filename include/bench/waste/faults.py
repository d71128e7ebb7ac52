"""What is done to the scenarios of a row, from outside and to all columns alike."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence

from bench.waste.program import HANG_STEP, STEP_S, STEPS
from bench.waste.run import Run
from bench.waste.settings import NAMESPACE
from sandbox.errors import SandboxError
from sandbox.faults.nodes import reclaim_node
from sandbox.faults.pods import fail_container
from sandbox.processes import read_process, send
from sandbox.proxy_script import Action, Rule
from sandbox.waiting import wait_for

MOMENT_S = HANG_STEP * STEP_S
"""Seconds after an attempt got its GPU at which most faults strike."""
RECLAIMS = 3
NOTICE_S = 3.0
NO_NODE_S = 40.0
REFUSED_S = 15.0
MLFLOW_LEAD_S = 10.0
MLFLOW_DOWN_S = 45.0
LOOK_S = 0.2

Fault = Callable[[Sequence[Run]], None]


def nothing(_: Sequence[Run]) -> None:
    """What goes wrong does so in the training itself."""


def kill_triggerer(runs: Sequence[Run]) -> None:
    """Kill all of the triggerer while every column's task is deferred, and start it again."""
    for run in runs:
        run.await_training(MOMENT_S)
        _await_state(run, "deferred")
    triggerer = runs[0].stage.stack.service("triggerer-1")
    triggerer.kill()
    triggerer.restart()
    triggerer.await_healthy()


def stop_mlflow(runs: Sequence[Run]) -> None:
    """Have MLflow down when the trainings end; who has given up by the time it is back is cleared by a person."""
    for run in runs:
        run.await_training(STEPS * STEP_S - MLFLOW_LEAD_S)
    mlflow = runs[0].stage.stack.service("mlflow")
    mlflow.kill()
    time.sleep(MLFLOW_LEAD_S + MLFLOW_DOWN_S)
    mlflow.restart()
    mlflow.await_healthy()
    for run in runs:
        if run.has_ended() and run.task("register").state == "failed":
            run.stage.tasks.clear(run.scenario, run.run_id, only_failed=True)
            wait_for(lambda run=run: not run.has_ended(), run.left(), f"{run.scenario.key} to go on")  # type: ignore[misc]


def kill_for_memory(runs: Sequence[Run]) -> None:
    """Be the kernel: kill each container that is out of memory, until the scenario is over."""
    (run,) = runs
    killed: set[str] = set()
    run.is_hit.set()
    while not run.is_over():
        for hold in run.holds():
            if hold.pod not in killed and (run.stage.signals / hold.pod).exists():
                fail_container(run.stage.sandbox, NAMESPACE, hold.pod, reason="OOMKilled")
                killed.add(hold.pod)
        time.sleep(LOOK_S)


def reclaim_three_times(runs: Sequence[Run]) -> None:
    """Take the spot node from under an attempt three times; the next one is there before."""
    (run,) = runs
    node = run.stage.add_node(run.scenario, 0)
    for number in range(1, RECLAIMS + 1):
        run.await_training(MOMENT_S, attempt=number)
        taken, node = node, run.stage.add_node(run.scenario, number)
        reclaim_node(run.stage.sandbox, taken, notice_s=NOTICE_S)


def bring_a_node(runs: Sequence[Run]) -> None:
    """Add the only node that fits after a while."""
    (run,) = runs
    wait_for(lambda: run.stage.view.jobs(run.scenario.key), run.left(), f"the Job of {run.scenario.key}")
    time.sleep(NO_NODE_S)
    run.stage.add_node(run.scenario, 0)


def refuse_the_token(runs: Sequence[Run]) -> None:
    """Answer 401 to everything for a while."""
    (run,) = runs
    run.await_training(MOMENT_S)
    _await_state(run, "deferred")
    proxy = run.stage.proxies[run.scenario.key]
    proxy.follow(Rule(action=Action.ANSWER, status=401))
    proxy.cut_streams()
    time.sleep(REFUSED_S)
    proxy.follow()


def kill_worker(runs: Sequence[Run]) -> None:
    """Kill the task's process and the worker's that runs it, when the Job is made and it has not been told so."""
    (run,) = runs
    proxy = run.stage.proxies[run.scenario.key]
    proxy.follow(Rule(action=Action.STALL, method="POST", path=r"/jobs(\?|$)", count=1))
    wait_for(lambda: run.stage.view.jobs(run.scenario.key), run.left(), f"the Job of {run.scenario.key}")
    task = wait_for(lambda: run.task().pid and run.task(), run.left(), f"the process of {run.scenario.key}")
    process = read_process(task.pid or 0) if task else None
    parent = read_process(process.parent) if process else None
    if process is None or parent is None:
        raise SandboxError(f"the task of {run.scenario.key} has no process to kill any more")
    for each in (parent, process):
        send(each, signal.SIGKILL)
    proxy.follow()


def mark_failed(runs: Sequence[Run]) -> None:
    """Mark the deferred task as failed, as a person does."""
    (run,) = runs
    run.await_training(MOMENT_S)
    _await_state(run, "deferred")
    run.stage.tasks.mark_failed(run.scenario, run.run_id)
    run.ended_at = time.monotonic()


def clear(runs: Sequence[Run]) -> None:
    """Clear the deferred task, as a person does."""
    (run,) = runs
    run.await_training(MOMENT_S)
    _await_state(run, "deferred")
    run.stage.tasks.clear(run.scenario, run.run_id, only_failed=False)


def _await_state(run: Run, state: str) -> None:
    wait_for(lambda: run.task().state == state, run.left(), f"{run.scenario.key} to be {state}", pause_s=LOOK_S)


FAULTS: Mapping[str, Fault] = {
    "triggerer-killed": kill_triggerer,
    "mlflow-down": stop_mlflow,
    "hang": nothing,
    "bad-configuration": nothing,
    "host-oom": kill_for_memory,
    "cuda-oom": nothing,
    "three-reclaims": reclaim_three_times,
    "never-schedulable": bring_a_node,
    "unauthorized": refuse_the_token,
    "worker-killed": kill_worker,
    "marked-failed": mark_failed,
    "cleared": clear,
}
"""What is done, by the row's name."""
