"""What a training tells the outside: progress lines while it runs, one result document at its end."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gpu_training.contract import (
    TERMINATION_MESSAGE_PATH,
    Progress,
    Result,
    ResultStatus,
    Variable,
    render_progress,
    render_result,
)

LEAST_INTERVAL = 1.0
"""Seconds between two progress lines that nothing but time calls for."""

_log = logging.getLogger(__name__)


class ProgressReport:
    """Prints progress lines: at the first and the last step, at checkpoints, and else about one a second."""

    def __init__(self, *, first_step: int, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._first = first_step
        self._total = total
        self._clock = clock
        self._started = clock()
        self._printed: float | None = None

    def step_done(self, step: int, *, loss: float, checkpoint_step: int | None, at_checkpoint: bool) -> None:
        now = self._clock()
        due = self._printed is None or now - self._printed >= LEAST_INTERVAL
        if not (due or at_checkpoint or step == self._total):
            return
        self._printed = now
        elapsed = now - self._started
        progress = Progress(
            step=step,
            total=self._total,
            loss=loss,
            throughput=(step - self._first + 1) / elapsed if elapsed > 0 else None,
            checkpoint_step=checkpoint_step,
        )
        print(render_progress(progress), flush=True)


@dataclass(slots=True)
class Attempt:
    """What is known of this attempt so far: the result document's content, whenever it ends."""

    data_version: str | None = None
    data_digest: str | None = None
    mlflow_run_id: str | None = None
    model_uri: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    first_step: int | None = None
    last_step: int | None = None
    device: str | None = None

    def result(self, *, error: str | None) -> Result:
        """Give the document; it says trained when there is no error."""
        return Result(
            status=ResultStatus.FAILED if error else ResultStatus.TRAINED,
            data_version=self.data_version,
            data_digest=self.data_digest,
            mlflow_run_id=self.mlflow_run_id,
            model_uri=self.model_uri,
            metrics=self.metrics,
            first_step=self.first_step,
            last_step=self.last_step,
            device=self.device,
            error=error,
        )


def leave_result(result: Result, environment: Mapping[str, str]) -> None:
    """Write the result document where the operator looks for it, and to standard output for people.

    A place that can not be written is a warning: the exit code and the log still tell what happened.
    """
    text = render_result(result)
    print(f"result document: {text}", flush=True)
    named = environment.get(Variable.TERMINATION_LOG)
    path = named or TERMINATION_MESSAGE_PATH
    # Kubernetes makes its file beforehand. Without it this is no container, and nothing belongs into /dev.
    if not named and not os.path.exists(path):
        _log.warning("%s does not exist: the result document is left nowhere but in this log", path)
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        _log.warning("%s: the result document was not written: %s", path, error)


def begin_logging() -> None:
    """Send log records to standard error, one line each: ours from INFO on, others' warnings."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("trainer").setLevel(logging.INFO)
    # It says at every model that this environment has no pip, which is meant.
    logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)
