"""`gpu-training status`: what every training of a namespace does and why it waits, read from the cluster itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

from gpu_training.commands.cluster_options import add_cluster_options, address_of
from gpu_training.commands.exits import Exit, RefusedError
from gpu_training.core.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from gpu_training.core.status import Overview


def add_parser(commands: Any) -> None:
    """Declare the command.

    :param commands: what `ArgumentParser.add_subparsers` gave.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        "status",
        help="what trainings do, how far they are, and why they wait",
        description="Show every training that lives or ended within a day: phase, why it waits and what would help, "
        "progress, clocks, attempts and their steps, GPU-seconds, who waits on it. Exit 0: shown, be there any or "
        "none; 2: refused",
    )
    parser.add_argument("name", nargs="?", metavar="MODEL|JOB", help="only the trainings of a model, or that of a Job")
    add_cluster_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(handle=status, interrupted="nothing was changed")


def status(options: argparse.Namespace) -> int:
    """Show the trainings, and give the exit code.

    :raises RefusedError: the cluster can not be reached, or lets nothing be seen.
    """
    try:
        # Airflow logs to the standard output as it was when Airflow was imported.
        with redirect_stdout(sys.stderr):
            overview = asyncio.run(_look(options))
    except (ClusterError, ConfigurationError) as error:
        raise RefusedError(str(error)) from error
    _show(options, overview)
    return Exit.DONE


async def _look(options: argparse.Namespace) -> Overview:
    from gpu_training.cluster.connection import Cluster
    from gpu_training.cluster.namespace_listing import is_missing
    from gpu_training.cluster.training_overview import overview_of
    from gpu_training.core.decide import Policy
    from gpu_training.rule_table import built_in_rules

    async with Cluster(address_of(options)) as cluster:
        overview = await overview_of(
            cluster,
            options.namespace,
            Policy(rules=built_in_rules()),
            deployment=options.deployment,
            name=options.name,
        )
        if not overview.models and await is_missing(cluster, options.namespace):
            raise RefusedError(f"namespace={options.namespace}: the cluster has none of this name; give --namespace")
        return overview


def _show(options: argparse.Namespace, overview: Overview) -> None:
    try:
        for line in _lines(options, overview):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough, as `head` does. Python writes what is left once more when it exits:
        # https://docs.python.org/3/library/signal.html#note-on-sigpipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _lines(options: argparse.Namespace, overview: Overview) -> list[str]:
    from gpu_training.core.status_document import to_document
    from gpu_training.core.status_text import overview_lines

    if options.json:
        return [json.dumps(to_document(overview, namespace=options.namespace), allow_nan=False)]
    # What is not read at a terminal is searched, and lines that are cut are not found.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return [*([] if overview.trainings else [_nothing(options, overview)]), *overview_lines(overview, width=width)]


def _nothing(options: argparse.Namespace, overview: Overview) -> str:
    whose = f" of Airflow {options.deployment}" if options.deployment is not None else ""
    if options.name is not None and overview.models:
        known = ", ".join(overview.models)
        return f"no training of model or Job {options.name}{whose} in namespace {options.namespace}; there are: {known}"
    return f"no training{whose} in namespace {options.namespace} lives, or has ended within a day"
