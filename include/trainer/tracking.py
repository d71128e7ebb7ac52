"""The MLflow run of a training: parameters, metrics by step, the model. Every method is one exchange."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainer.failures import TrackingFailure

if TYPE_CHECKING:
    import pandas as pd
    import xgboost

WRITER_TAG = "gpu-training.io/writer"
"""Pod that writes to the run. Whoever finds another's name there has been replaced and stops writing."""

SINCE_TAG = "gpu-training.io/writer-since"
"""When that pod's training began, in seconds since 1970."""

_CLOCKS_DIFFER = 60.0
"""Seconds by which the clocks of two nodes may differ. A cut-off pod is replaced later than that."""

MODEL_NAME = "model"
_BATCH = 500
_ENVIRONMENT = {
    # The training has retries of its own around these: MLflow's defaults, 7 of 2 minutes, would hold a GPU for long.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_PERMANENT = (
    "RESOURCE_DOES_NOT_EXIST",
    "INVALID_PARAMETER_VALUE",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "INVALID_STATE",
)
_log = logging.getLogger(__name__)


class RefusedError(TrackingFailure):
    """The server answered and said no: asking again gives the same answer."""


class ReplacedError(RefusedError):
    """Another attempt has taken the run over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Metrics after a step.

    :param at: milliseconds since the epoch. Kept from the first try on, so that a batch sent twice is stored once.
    """

    step: int
    at: int
    values: Mapping[str, float]


class TrackedRun:
    """One run, found by its id.

    :param writer: who writes, for WRITER_TAG.
    """

    def __init__(self, uri: str, run_id: str, *, writer: str) -> None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        import mlflow

        self.run_id = run_id
        self._writer = writer
        self._since = time.time()
        self._model_id: str | None = None
        mlflow.set_tracking_uri(uri)
        self._client = mlflow.MlflowClient(uri)

    def open(self, parameters: Mapping[str, object], *, metric: str, late: bool = False) -> int:
        """Take the run over: status RUNNING, parameters that it lacks. Gives the last step of `metric` there, or 0.

        Parameters can not be changed once logged; one that differs is a warning.

        :param late: whether this training has run for a while already.
        :raises ReplacedError: late, and an attempt that began after this one has the run: this pod's node was cut off.
        """
        with _translated(f"MLflow run {self.run_id}"):
            run = self._client.get_run(self.run_id)
            if late and _began(run.data.tags) > self._since + _CLOCKS_DIFFER:
                raise ReplacedError(f"MLflow run {self.run_id} was taken over by {run.data.tags.get(WRITER_TAG)}")
            self._client.set_tag(self.run_id, WRITER_TAG, self._writer)
            self._client.set_tag(self.run_id, SINCE_TAG, f"{self._since:.0f}")
            # MLflow leaves the status of a run that ended before: it has to be said.
            self._client.update_run(self.run_id, status="RUNNING")
            self._log_parameters(run.data.params, {name: str(value) for name, value in parameters.items()})
            if metric not in run.data.metrics:
                return 0
            history = self._client.get_metric_history(self.run_id, metric)
            return max((entry.step for entry in history), default=0)

    def _log_parameters(self, logged: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        from mlflow.entities import Param

        for name, value in wanted.items():
            if name in logged and logged[name] != value:
                _log.warning("MLflow run %s has %s=%s, this training %s", self.run_id, name, logged[name], value)
        missing = [Param(name, value) for name, value in wanted.items() if name not in logged]
        if missing:
            self._client.log_batch(self.run_id, params=missing)

    def check_writer(self) -> None:
        """Raise ReplacedError when another attempt has taken the run over."""
        with _translated(f"MLflow run {self.run_id}"):
            writer = self._client.get_run(self.run_id).data.tags.get(WRITER_TAG)
        if writer != self._writer:
            raise ReplacedError(f"MLflow run {self.run_id} was taken over by {writer}")

    def log(self, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        metrics = [
            Metric(name, value, point.at, point.step) for point in points for name, value in point.values.items()
        ]
        with _translated(f"metrics of MLflow run {self.run_id}"):
            for start in range(0, len(metrics), _BATCH):
                self._client.log_batch(self.run_id, metrics=metrics[start : start + _BATCH])

    def log_final(self, step: int, values: Mapping[str, float]) -> None:
        """Log the metrics of the whole training, but those that an earlier attempt left with the same value."""
        with _translated(f"metrics of MLflow run {self.run_id}"):
            logged = self._client.get_run(self.run_id).data.metrics
        news = {name: value for name, value in values.items() if logged.get(name) != value}
        self.log([Point(step=step, at=time.time_ns() // 1_000_000, values=news)])

    def log_model(self, booster: xgboost.Booster, *, example: pd.DataFrame, prediction: Any, step: int) -> str:
        """Log the model with its signature and an input example; gives its URI, `models:/m-…`.

        Called again after an outage it completes the same logged model.
        """
        import mlflow.xgboost
        from mlflow.models import Model, infer_signature

        with _translated(f"model of MLflow run {self.run_id}"):
            if self._model_id is None:
                run = self._client.get_run(self.run_id)
                # Made here, since MLflow takes the default experiment for a model outside of an active run; and a run
                # made active is reported FINISHED when this process ends, however it does.
                self._model_id = self._client.create_logged_model(
                    run.info.experiment_id, name=MODEL_NAME, source_run_id=self.run_id, params=run.data.params
                ).model_id
            logged = Model.log(
                artifact_path=None,
                name=MODEL_NAME,
                flavor=mlflow.xgboost,
                run_id=self.run_id,
                model_id=self._model_id,
                step=step,
                xgb_model=booster,
                signature=infer_signature(example, prediction),
                input_example=example,
                # Named here, since MLflow else finds them by loading the model in another process, which takes seconds.
                pip_requirements=_requirements(),
            )
        return str(logged.model_uri)

    def end(self, status: str) -> None:
        with _translated(f"MLflow run {self.run_id}"):
            self._client.set_terminated(self.run_id, status)


def _began(tags: Mapping[str, str]) -> float:
    """Give when the run's writer began; the beginning of time where nobody has said so."""
    try:
        return float(tags.get(SINCE_TAG, "0"))
    except ValueError:
        return 0.0


def _requirements() -> list[str]:
    import mlflow
    import numpy
    import pandas
    import xgboost

    # The common distributions, not the lean ones that this process may run on: whoever serves the model takes those.
    return [f"{module.__name__}=={module.__version__}" for module in (mlflow, numpy, pandas, xgboost)]


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn every error of an exchange into RefusedError or TrackingFailure."""
    try:
        yield
    except TrackingFailure:
        raise
    except Exception as error:
        cause = RefusedError if getattr(error, "error_code", None) in _PERMANENT else TrackingFailure
        raise cause(f"{what}: {' '.join(str(error).split())}") from error
