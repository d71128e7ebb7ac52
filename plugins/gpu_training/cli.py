"""`gpu-training`: trainings from the command line, for CI and for people without a browser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from gpu_training.airflow_client import AirflowError
from gpu_training.commands import doctor, run, status
from gpu_training.commands.exits import Exit, RefusedError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.handle(options))
    except (RefusedError, AirflowError) as error:
        print(f"gpu-training: {error}", file=sys.stderr)
        return Exit.REFUSED
    except KeyboardInterrupt:
        print(f"gpu-training: interrupted; {options.interrupted}", file=sys.stderr)
        return Exit.INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpu-training", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command in (run, status, doctor):
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
