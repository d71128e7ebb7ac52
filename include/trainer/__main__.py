"""`python -m trainer`: train, say how it goes, leave a result document, and end with a code of the contract."""

from __future__ import annotations

import logging
import os
import sys
import traceback

from gpu_training.contract import ExitCode, Variable
from trainer.failures import TrainingFailure, exit_code_of, summary_of
from trainer.interruption import Interruption
from trainer.report import Attempt, begin_logging, leave_result
from trainer.settings import parse_settings


def main(arguments: list[str]) -> ExitCode:
    """Run one training; never raises, and gives the exit code."""
    interruption = Interruption()
    interruption.install()
    begin_logging()
    attempt, training, error = Attempt(), None, None
    try:
        settings = parse_settings(arguments, os.environ)
        # A process that this one starts must not take the run for its own.
        os.environ.pop(Variable.MLFLOW_RUN_ID, None)
        # Read when OpenMP is loaded. Threads that wait spin by default, which on shared cores and under a container's
        # CPU quota slows a training several times over.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # After the arguments: it imports what takes seconds.
        from trainer.program import Training

        training = Training(settings, attempt, interruption)
        training.run()
    except Exception as failure:
        error = failure
        if not isinstance(failure, TrainingFailure):
            traceback.print_exc()
    code = exit_code_of(error) if error is not None else ExitCode.TRAINED
    if error is not None:
        logging.getLogger("trainer").error("%s (exit code %d, %s)", summary_of(error), code, code.name)
    leave_result(attempt.result(error=summary_of(error) if error is not None else None), os.environ)
    if training is not None:
        training.close(code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
