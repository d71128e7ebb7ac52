"""Telemetry that a training never waits for: a thread sends, an outage is a warning, no step is sent twice."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from gpu_training.attempt import Interrupted
from trainer.failures import ConfigurationFailure, TrackingFailure
from trainer.tracking import Point, RefusedError, TrackedRun

INTERVAL = 2.0
"""Seconds between two exchanges with a server that answers."""

LONGEST_PAUSE = 60.0
_JOIN_S = 3.0
_FAREWELL_S = 5.0
"""Seconds for which an ending training waits for MLflow to close the run: a pod that is being stopped has about 30."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Telemetry:
    """Sends the metrics of each step to one run, each step once over all attempts.

    :param parameters: logged when the run is opened.
    :param metric: the metric whose last step in the run tells what earlier attempts have logged.
    """

    def __init__(self, run: TrackedRun, parameters: Mapping[str, object], *, metric: str) -> None:
        self._run = run
        self._parameters = parameters
        self._metric = metric
        self._logged_step: int | None = None
        self._has_begun = False
        self._pending: list[Point] = []
        self._exchanging = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="telemetry", daemon=True)

    def begin(self) -> None:
        """Take the run over and start sending.

        A server that is silent is a warning, since the operator has seen it well just before.

        :raises ConfigurationFailure: the server says that there is no such run, or that it may not be written.
        """
        try:
            self.exchange()
        except RefusedError as error:
            raise ConfigurationFailure(f"MLFLOW_RUN_ID={self._run.run_id}: {error}") from error
        except TrackingFailure as error:
            _log.warning("MLflow does not answer, metrics are kept for later: %s", error)
        self._thread.start()

    def record(self, step: int, values: Mapping[str, float]) -> None:
        """Keep the metrics of a step until they are sent."""
        self._pending.append(Point(step=step, at=time.time_ns() // 1_000_000, values=values))

    def exchange(self) -> None:
        """Send what is pending; raises TrackingFailure and keeps it when the server does not take it."""
        with self._exchanging:
            if self._logged_step is None:
                late, self._has_begun = self._has_begun, True
                self._logged_step = self._run.open(self._parameters, metric=self._metric, late=late)
            else:
                self._run.check_writer()
            taken = list(self._pending)
            # Steps that an earlier attempt logged after its last checkpoint are done again, but are not news.
            news = [point for point in taken if point.step > self._logged_step]
            if news:
                self._run.log(news)
                self._logged_step = news[-1].step
            del self._pending[: len(taken)]

    def _work(self) -> None:
        pause, silent = INTERVAL, False
        while not self._stopping.wait(pause):
            try:
                self.exchange()
            except RefusedError as error:
                _log.warning("no more metrics are sent: %s", error)
                return
            except TrackingFailure as error:
                if not silent:
                    _log.warning("MLflow does not answer, the training goes on and metrics are kept: %s", error)
                pause, silent = min(pause * 2, LONGEST_PAUSE), True
            else:
                if silent:
                    _log.info("MLflow answers again")
                pause, silent = INTERVAL, False

    def stop(self) -> None:
        """End the thread. What is pending stays so until :meth:`exchange`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def close(self, status: str) -> None:
        """Send what is pending and give the run its last status, as far as a few seconds allow."""
        self.stop()
        farewell = threading.Thread(target=self._say_farewell, args=(status,), daemon=True)
        farewell.start()
        farewell.join(_FAREWELL_S)

    def _say_farewell(self, status: str) -> None:
        if self._logged_step is None:
            # Another attempt may have it by now: who has never opened it does not do so to say farewell.
            _log.warning("MLflow run %s was never reached, the operator closes it", self._run.run_id)
            return
        try:
            self.exchange()
            self._run.end(status)
        except TrackingFailure as error:
            _log.warning("MLflow run %s stays open, the operator closes it: %s", self._run.run_id, error)


def persist(action: Callable[[], _T], *, patience: float, wait: Callable[[float], bool]) -> _T:
    """Do what the training can not do without, again and again while MLflow is silent, for `patience` seconds.

    :param wait: waits some seconds and tells whether SIGTERM has arrived.
    :raises TrackingFailure: refused, or still silent after that time.
    :raises Interrupted: SIGTERM arrived meanwhile.
    """
    deadline, pause = time.monotonic() + patience, 1.0
    while True:
        try:
            return action()
        except RefusedError:
            raise
        except TrackingFailure as error:
            if time.monotonic() + pause > deadline:
                raise TrackingFailure(
                    f"MLflow did not take the model within {patience:g} s (--tracking-patience): {error}; another try "
                    "only logs it where the last checkpoint was written, and trains again where there are none"
                ) from error
            _log.warning("MLflow does not answer, next try in %.0f s: %s", pause, error)
        if wait(pause):
            raise Interrupted("interrupted by SIGTERM while waiting for MLflow")
        pause = min(pause * 2, 15.0)
