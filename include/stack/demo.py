"""The demo: everything from nothing on one machine, one training, and what came of it.

`python -m stack.demo` stays up until Ctrl-C; with `--once` it ends everything, exits 0 only if a model version was
registered, and its last line of output is a JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from gpu_training.airflow_client import AirflowError
from gpu_training.commands.exits import RefusedError
from gpu_training.commands.run import DAG_PREFIX, run_url, start_training, summarise
from gpu_training.run_follower import TRAIN, PhaseChanged, ProgressMade, RunReport, TaskChanged, follow_run, report_run
from sandbox.errors import SandboxError
from sandbox.processes import ProcessError
from stack.checkout import DEFAULT_STATE
from stack.errors import StackError
from stack.lifecycle import ADMIN, Stack
from stack.screen import Screen, open_screen, print_table
from stack.steps import Steps

DEFAULT_MODEL = "flight-delay"


class Exit(IntEnum):
    REGISTERED = 0
    FAILED = 1
    INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and give its exit code."""
    options = _parser().parse_args(arguments)
    # A shell's background jobs have SIGINT ignored, whoever sends it to one means it; nohup's wish is heeded.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
    try:
        return run(options.state, options.model, options.param, once=options.once)
    except KeyboardInterrupt:
        print("interrupted: everything is ended", file=sys.stderr)
        return Exit.INTERRUPTED
    except (StackError, SandboxError, ProcessError, AirflowError, RefusedError) as error:
        print(f"the demo failed: {error}", file=sys.stderr)
        return Exit.FAILED


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stack.demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help="end everything after the training; JSON on the last line")
    parser.add_argument("--model", default=DEFAULT_MODEL, help=f"a model of include/models (default {DEFAULT_MODEL})")
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a field of the trigger form"
    )
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="folder for all that it writes")
    return parser


def run(state: Path, model: str, params: Sequence[str] = (), *, once: bool) -> int:
    """Bring everything up, train, show what came of it, end everything.

    :param once: end at once instead of at Ctrl-C.
    :returns: the exit code.
    :raises StackError: a part did not come up, or the model's DAG did not appear.
    :raises KeyboardInterrupt: Ctrl-C or SIGTERM before the training ended; everything has been ended.
    """
    began = time.monotonic()
    with open_screen() as screen:
        steps = Steps(screen)
        stack = Stack.up(state, steps, owner_pid=os.getpid())
        try:
            report = train(stack, model, params, steps, screen)
        except BaseException:
            stack.down()
            raise
    try:
        _show(stack, report, steps)
        if not once:
            _stay(stack)
    finally:
        with steps.step("stop"):
            stack.down()
    if report.model_version is None:
        return Exit.FAILED
    if once:
        steps.seconds["total"] = round(time.monotonic() - began, 1)
        print(json.dumps(outcome(stack, report, steps.seconds)), flush=True)
    return Exit.REGISTERED


def train(stack: Stack, model: str, params: Sequence[str], steps: Steps, screen: Screen) -> RunReport:
    """Train a model on demand, show how it gets on, and give what came of it.

    :raises StackError: the model's DAG does not appear.
    :raises RefusedError: there is no such param.
    """
    dag_id = f"{DAG_PREFIX}{model}"
    with stack.client() as client:
        with steps.step("dag"):
            stack.await_dag(client, dag_id)
            client.unpause(dag_id)
        run_id = start_training(client, model, params)
        screen.say(f"watch it at {run_url(client, dag_id, run_id)}")
        for event in follow_run(client, dag_id, run_id):
            match event:
                case ProgressMade(progress=progress):
                    screen.progress(progress)
                case PhaseChanged(text=text):
                    screen.tell(TRAIN, text)
                case TaskChanged(task=task):
                    screen.tell(task.task_id, str(task.state))
                    if task.seconds is not None and task.state == "success":
                        screen.finish(task.task_id, task.seconds)
        report = report_run(client, dag_id, run_id)
        if report.model_version is None:
            screen.say("the demo failed: no model version was registered")
            for line in summarise(client, report):
                screen.say(line)
    steps.seconds.update(report.task_seconds)
    return report


def outcome(stack: Stack, report: RunReport, seconds: dict[str, float]) -> dict[str, Any]:
    """Give the document of the last line."""
    return {
        "data_version": report.data_version,
        "fingerprint": report.fingerprint,
        "job": report.job,
        "attempts": report.attempts,
        "gpu_seconds": report.gpu_seconds,
        "metrics": dict(report.metrics),
        "registered_model": report.registered_model,
        "model_version": report.model_version,
        "airflow_url": stack.airflow_url,
        "mlflow_url": stack.mlflow_url,
        "seconds": seconds,
    }


def _show(stack: Stack, report: RunReport, steps: Steps) -> None:
    rows = [
        ("data version", str(report.data_version)),
        ("fingerprint", str(report.fingerprint)),
        ("job", str(report.job)),
        ("attempts", str(report.attempts)),
        ("GPU-seconds", str(report.gpu_seconds)),
        *((name, f"{value:.4g}") for name, value in report.metrics.items()),
        ("model version", f"{report.registered_model} {report.model_version}" if report.model_version else "none"),
        ("Airflow", stack.airflow_url),
        ("log in as", f"{ADMIN}, password in {stack.passwords_file}"),
        ("MLflow", stack.mlflow_url),
        ("kubeconfig", str(stack.kubeconfig)),
        ("logs", str(stack.folder / "logs")),
        ("seconds", ", ".join(f"{name} {seconds:g}" for name, seconds in steps.seconds.items())),
    ]
    print_table(f"{report.dag_id}: {report.state}", rows)


def _stay(stack: Stack) -> None:
    """Keep everything up until Ctrl-C, which is then the ordinary end."""
    print(f"Airflow at {stack.airflow_url} and MLflow at {stack.mlflow_url} stay up until Ctrl-C", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print("ending everything", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
