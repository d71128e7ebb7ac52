"""Where things lie in the checkout, and the environment that every process of the stack begins with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stack.errors import StackError

ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT_STATE = ROOT / ".state" / "stack"
SERVICES = ROOT / ".venv-services"
TRAINER = ROOT / ".venv-trainer"


def cache_folder() -> Path:
    """Give the folder that outlives a stack: what is slow to make and the same for all."""
    given = os.environ.get("GPU_TRAINING_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "gpu-training"


def airflow_python() -> str:
    """Give the interpreter with Airflow: the one that runs this."""
    return sys.executable


def python_of(environment: Path) -> str:
    """Give the interpreter of one of the checkout's other virtual environments.

    :raises StackError: it has not been made.
    """
    python = environment / "bin" / "python"
    if not python.exists():
        raise StackError(f"the virtual environment {environment} is missing: run `make install`")
    return str(python)


def base_environment(home: Path) -> dict[str, str]:
    """Give the whole environment that a process begins with.

    Nothing else of the caller's gets through: neither a proxy that can not reach this machine's own services, nor an
    AIRFLOW__… or AWS_… of another project.

    :param home: takes the place of the user's home folder, with its ~/.aws and ~/.kube.
    """
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "DO_NOT_TRACK": "1",
    }
