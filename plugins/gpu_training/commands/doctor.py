"""`gpu-training doctor`: is all there that the first training needs; a line a check, with its remedy."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from gpu_training.commands.airflow_options import add_airflow_options, connect
from gpu_training.commands.cluster_options import add_connection_options, address_of
from gpu_training.commands.exits import Exit, RefusedError
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import nearest

if TYPE_CHECKING:
    from gpu_training.core.check_up import Check
    from gpu_training.model_files import ModelFiles

_FOLDER: Final = Path("include") / "models"
_CHECKOUT: Final = Path(__file__).resolve().parents[3]


def add_parser(commands: Any) -> None:
    """Declare the command.

    :param commands: what `ArgumentParser.add_subparsers` gave.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="check cluster, MLflow, data and Airflow before the first training",
        description="Check what trainings need, a line a check with its remedy; nothing is created. Exit 0: nothing is "
        "broken, though there may be warnings; 1: something is; 2: refused",
    )
    parser.add_argument("model", nargs="?", help="only this model of include/models; default: all")
    parser.add_argument(
        "--models",
        type=Path,
        metavar="FOLDER",
        help=f"of the models' files; default: {_FOLDER}, here or of this checkout",
    )
    add_connection_options(parser)
    parser.add_argument("--mlflow-url", metavar="URL", help="MLflow's address, instead of the models' connection")
    add_airflow_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.set_defaults(handle=doctor, interrupted="nothing was created")


def doctor(options: argparse.Namespace) -> int:
    """Check what trainings need, show it, and give the exit code.

    :raises RefusedError: there is nothing to check, or no way to it.
    """
    out = sys.stdout
    # Airflow and its providers log to standard output, which is for the checks alone.
    with redirect_stdout(sys.stderr):
        _quiet_airflow()
        checks = _checks(options, out)
    from gpu_training.core.check_up import is_sound, summary_of, to_document

    print(json.dumps(to_document(checks)) if options.json else f"\n{summary_of(checks)}", file=out)
    return Exit.DONE if is_sound(checks) else Exit.FAILED


def _quiet_airflow() -> None:
    """Keep what is no warning out of the way, unless somebody has asked for it, or it is too late."""
    if "airflow" not in sys.modules:
        os.environ.setdefault("AIRFLOW__LOGGING__LOGGING_LEVEL", "WARNING")


def _checks(options: argparse.Namespace, out: TextIO) -> list[Check]:
    """Give all checks; for a person each of them is shown as soon as it is made."""
    from gpu_training.check_up.examination import Examination

    files = _files(options)
    examination = Examination(
        models=list(files.models.values()),
        faults=files.faults,
        address=address_of(options),
        mlflow_url=_plain_url(options.mlflow_url),
        airflow=connect(options) if options.airflow_url else None,
    )
    checks: list[Check] = []
    for check in examination.checks():
        if not options.json:
            _show(check, checks[-1].subject if checks else None, out)
        checks.append(check)
    return checks


def _show(check: Check, before: str | None, out: TextIO) -> None:
    """Print a check; a subject that begins gets a line of its own."""
    if check.subject != before:
        print(f"{'' if before is None else chr(10)}{check.subject}", file=out)
    print(f"  {check.line}", file=out, flush=True)


def _files(options: argparse.Namespace) -> ModelFiles:
    from gpu_training.model_files import ModelFiles, read_model_files

    folder = options.models or next((path for path in (_FOLDER, _CHECKOUT / _FOLDER) if path.is_dir()), _FOLDER)
    try:
        files = read_model_files(folder)
    except ConfigurationError as error:
        raise RefusedError(f"{error}; name it with --models") from error
    if options.model is None:
        if not files.models and not files.faults:
            raise RefusedError(f"models={folder}: there is no model's file in it")
        return files
    if options.model in files.models:
        return ModelFiles(models={options.model: files.models[options.model]}, faults=())
    if faults := tuple(
        fault for fault in files.faults if fault.field.startswith(f"{options.model.replace('-', '_')}.")
    ):
        return ModelFiles(models={}, faults=faults)
    known = ", ".join(files.models) or "none"
    raise RefusedError(f"model={options.model!r}: unknown{nearest(options.model, files.models)}; known are: {known}")


def _plain_url(url: str | None) -> str | None:
    """Give an address that may be shown.

    :raises RefusedError: it is none, or holds credentials.
    """
    from urllib.parse import urlsplit

    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise RefusedError(f"mlflow-url={url!r}: an address that begins with http:// or https:// is expected")
    if parts.username or parts.password:
        raise RefusedError(
            "mlflow-url holds credentials, which would be shown: leave them out, and set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD"
        )
    return url.rstrip("/")
