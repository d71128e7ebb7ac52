"""`gpu-training run`: start a training in an Airflow and wait for it."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from gpu_training.airflow_client import AirflowClient, AirflowError, DagDetails, NotFoundError, RunState
from gpu_training.commands.airflow_options import add_airflow_options, connect
from gpu_training.commands.exits import Exit, RefusedError
from gpu_training.core import progress_text
from gpu_training.run_follower import (
    LogWritten,
    PhaseChanged,
    ProgressMade,
    RunEvent,
    RunReport,
    TaskChanged,
    follow_run,
    log_tail,
    report_run,
)

DAG_PREFIX = "train_on_demand__"


def add_parser(commands: Any) -> None:
    """Declare the command.

    :param commands: what `ArgumentParser.add_subparsers` gave.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        "run",
        help="train a model now",
        description="Start train_on_demand__MODEL. Exit 0: trained, or without --wait started; 1: failed; 2: refused",
    )
    parser.add_argument("model", help="a model of include/models, such as flight-delay")
    parser.add_argument(
        "--param", action="append", default=[], metavar="NAME=VALUE", help="a field of the trigger form; repeatable"
    )
    add_airflow_options(parser)
    parser.add_argument("--wait", action="store_true", help="show progress until the run has ended")
    parser.add_argument(
        "--json", action="store_true", help="one JSON document on standard output, the rest on standard error"
    )
    parser.set_defaults(handle=run, interrupted="what was started goes on in Airflow")


def run(options: argparse.Namespace) -> int:
    """Start a training, wait for it where that is asked for, and give the exit code."""
    dag_id = f"{DAG_PREFIX}{options.model}"
    say = _printer(sys.stderr if options.json else sys.stdout)
    with connect(options) as client:
        run_id = start_training(client, options.model, options.param)
        say(f"started {dag_id}, run {run_id}: {run_url(client, dag_id, run_id)}")
        if not options.wait:
            if options.json:
                print(json.dumps({"dag_id": dag_id, "run_id": run_id}))
            return Exit.DONE
        try:
            report = _await_end(client, dag_id, run_id, say)
        except AirflowError as error:
            # Not a refusal: whoever took it for one would start the same training again, beside this one.
            print(f"gpu-training: run {run_id} was started and is out of sight, it may go on: {error}", file=sys.stderr)
            return Exit.FAILED
    if options.json:
        print(json.dumps(asdict(report)))
    return Exit.DONE if has_succeeded(report) else Exit.FAILED


def _await_end(client: AirflowClient, dag_id: str, run_id: str, say: Callable[[str], None]) -> RunReport:
    for event in follow_run(client, dag_id, run_id):
        if text := describe(event):
            say(text)
    report = report_run(client, dag_id, run_id)
    for line in summarise(client, report):
        say(line)
    return report


def start_training(client: AirflowClient, model: str, params: Sequence[str] = ()) -> str:
    """Start a training of a model and give the run's id.

    :param params: `NAME=VALUE` each.
    :raises RefusedError: unknown model or param, or the DAG is paused: nothing was started.
    :raises AirflowError: Airflow refused a value, the login, or is away.
    """
    dag_id = f"{DAG_PREFIX}{model}"
    try:
        details = client.dag(dag_id)
    except NotFoundError:
        known = [each.removeprefix(DAG_PREFIX) for each in client.dag_ids(DAG_PREFIX)]
        raise RefusedError(f"model={model!r}: unknown; {_known(model, known)}") from None
    if details.is_paused:
        raise RefusedError(f"{dag_id} is paused, its runs would wait: unpause it in Airflow first")
    return client.trigger(dag_id, read_params(details, params))


def read_params(details: DagDetails, given: Sequence[str]) -> dict[str, Any]:
    """Read `NAME=VALUE` words after the types that the DAG declares. Whether a value is allowed, Airflow says."""
    params: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not equals:
            raise RefusedError(f"param={word!r}: NAME=VALUE is expected")
        if name not in details.params:
            raise RefusedError(f"param={name!r}: unknown; {_known(name, sorted(details.params))}")
        if name in params:
            raise RefusedError(f"param={name!r}: given twice")
        params[name] = _read_value(text, details.params[name].get("schema") or {})
    return params


def _read_value(text: str, schema: Mapping[str, Any]) -> Any:
    types = schema.get("type", "string")
    if "string" in ([types] if isinstance(types, str) else types):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _known(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}known are: {', '.join(known) or 'none'}"


def run_url(client: AirflowClient, dag_id: str, run_id: str) -> str:
    """Give the page of a run in Airflow's UI."""
    return f"{client.url}/dags/{quote(dag_id)}/runs/{quote(run_id)}"


def describe(event: RunEvent) -> str | None:
    """Give a line for a person; None for what only a log needs."""
    match event:
        case TaskChanged(task=task):
            tried = f" (try {task.try_number})" if task.try_number > 1 else ""
            return f"{task.task_id}: {task.state}{tried}"
        case PhaseChanged(text=text):
            return f"train: {text}"
        case ProgressMade(progress=progress):
            return f"train: {progress_text.render(progress)}"
        case LogWritten():
            return None


def has_succeeded(report: RunReport) -> bool:
    """Tell whether a run and all its tasks succeeded. Airflow makes a run that was marked as failed a success, once its
    teardown has succeeded."""
    return report.state is RunState.SUCCESS and not report.failed_tasks


def summarise(client: AirflowClient, report: RunReport) -> list[str]:
    """Give the lines that say how a run ended; for one that failed, the end of the log of each task that failed."""
    if has_succeeded(report) and report.job is None:
        return [f"nothing was trained on {report.data_version}: a dry run, or tasks marked as successful by hand"]
    if has_succeeded(report):
        metrics = ", ".join(f"{name} {value:.4g}" for name, value in report.metrics.items()) or "no metrics"
        version = f"{report.registered_model} version {report.model_version}" if report.model_version else "nothing"
        return [f"trained on {report.data_version}: registered {version}; {metrics}"]
    lines = [
        f"{report.dag_id}, run {report.run_id}, {report.state}: {', '.join(report.failed_tasks) or 'no task'} failed"
    ]
    for task_id in report.failed_tasks:
        lines.append(f"the end of the log of {task_id}:")
        lines.extend(f"  {line}" for line in log_tail(client, report.dag_id, report.run_id, task_id))
    return lines


def _printer(stream: Any) -> Callable[[str], None]:
    return lambda text: print(text, file=stream, flush=True)
