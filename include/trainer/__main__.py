"""`python -m trainer`: train, say how it goes, leave a result document, and end with a code of the contract."""

from __future__ import annotations

import logging
import os
import sys
import traceback

from gpu_training.attempt import Attempt, is_foreseen
from gpu_training.contract import Variable
from trainer.settings import parse_settings


def main(arguments: list[str]) -> int:
    """Run one training; never raises, and gives the exit code."""
    _begin_logging()
    attempt, training, error = Attempt(say=logging.getLogger("trainer").warning), None, None
    try:
        attempt.begin()
        settings = parse_settings(arguments, os.environ)
        # A process that this one starts must not take the run for its own.
        os.environ.pop(Variable.MLFLOW_RUN_ID, None)
        # Read when OpenMP is loaded. Threads that wait spin by default, which on shared cores and under a container's
        # CPU quota slows a training several times over.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # After the arguments: it imports what takes seconds.
        from trainer.program import Training

        training = Training(settings, attempt)
        training.run()
    except Exception as failure:
        error = failure
        if not is_foreseen(failure):
            traceback.print_exc()
    code = attempt.end(error)
    # The result document first: MLflow may take its time.
    if training is not None:
        training.close(code)
    return code


def _begin_logging() -> None:
    """Send log records to standard error, one line each: ours from INFO on, others' warnings."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("trainer").setLevel(logging.INFO)
    # It says at every model that this environment has no pip, which is meant.
    logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
