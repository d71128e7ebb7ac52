"""One training from its data version to its logged model."""

from __future__ import annotations

import logging
import time

from gpu_training.attempt import Attempt
from gpu_training.checkpoints import Checkpoints
from gpu_training.contract import ExitCode
from trainer.boosting import FIXED, HELD_OUT_LOSS, ROW_SHARE, TRAIN_LOSS, Boosting, evaluate
from trainer.checkpoints import Checkpoint, open_checkpoints, resume
from trainer.dataset import DataVersion
from trainer.failures import ConfigurationFailure, StorageFailure
from trainer.flights import Split, build_split
from trainer.settings import Settings
from trainer.telemetry import Telemetry, persist
from trainer.tracking import TrackedRun

EXAMPLE_ROWS = 5
_log = logging.getLogger(__name__)


class Training:
    """One attempt.

    :param attempt: filled as things become known, so that a failure can report them too.
    """

    def __init__(self, settings: Settings, attempt: Attempt) -> None:
        if settings.tracking_uri is None and settings.checkpoint_uri is None:
            raise ConfigurationFailure(
                "neither MLFLOW_TRACKING_URI nor GPU_TRAINING_CHECKPOINT_URI is set: the model would be left nowhere"
            )
        self._settings = settings
        self._attempt = attempt
        self._losses: dict[str, list[float]] = {TRAIN_LOSS: [], HELD_OUT_LOSS: []}
        self._telemetry: Telemetry | None = None
        self._run: TrackedRun | None = None
        attempt.checkpoints = self._open_checkpoints()

    def _open_checkpoints(self) -> Checkpoints[bytes] | None:
        uri, settings = self._settings.checkpoint_uri, self._settings
        if uri is None:
            return None
        return open_checkpoints(uri, writer=settings.writer, fingerprint=settings.fingerprint)

    def run(self) -> None:
        """Train, evaluate and log the model; the attempt then holds its metrics and the model's URI."""
        split = self._read_data()
        self._attempt.notice.check("reading the data")
        boosting = self._resume(split)
        self._begin_telemetry(split)
        self._attempt.notice.check("preparing the training")
        self._run_rounds(boosting)
        self._attempt.metrics = evaluate(boosting, split)
        self._attempt.notice.check("evaluating the model")
        self._deliver(boosting, split)

    def close(self, code: int) -> None:
        """Close the MLflow run of an attempt that failed; the operator's verdict on the Job stands above it."""
        if self._telemetry is not None and code != ExitCode.TRAINED:
            self._telemetry.close("KILLED" if code == ExitCode.INTERRUPTED else "FAILED")

    def _read_data(self) -> Split:
        settings = self._settings
        data = DataVersion(settings.data_uri, version=settings.data_version, digest=settings.data_digest)
        split = build_split(data.files(), settings.target)
        self._attempt.data_version, self._attempt.data_digest = data.manifest.id, data.manifest.digest
        _log.info(
            "data version %s: %d flights to learn from, %d of %s and later held out",
            data.manifest.id,
            len(split.train.target),
            len(split.held_out.target),
            split.held_out_from,
        )
        return split

    def _resume(self, split: Split) -> Boosting:
        settings = self._settings
        found = resume(self._attempt, rounds=settings.rounds)
        boosting = Boosting(split, settings, model=found.model if found else None, step=found.step if found else 0)
        if found is not None:
            self._losses = {name: list(found.losses[name]) for name in self._losses}
        self._attempt.device = boosting.device
        _log.info("computing on %s, steps %d to %d", boosting.device, boosting.step + 1, settings.rounds)
        return boosting

    def _begin_telemetry(self, split: Split) -> None:
        settings = self._settings
        if settings.tracking_uri is None or settings.run_id is None:
            _log.warning("MLFLOW_TRACKING_URI is absent: the model is left in the last checkpoint only")
            return
        self._attempt.mlflow_run_id = settings.run_id
        self._run = TrackedRun(settings.tracking_uri, settings.run_id, writer=settings.writer)
        parameters = {
            **FIXED,
            "row_share": ROW_SHARE,
            "target": settings.target,
            "rounds": settings.rounds,
            "learning_rate": settings.learning_rate,
            "max_depth": settings.max_depth,
            "seed": settings.seed,
            "data_version": settings.data_version,
            "data_digest": settings.data_digest,
            "train_rows": len(split.train.target),
            "held_out_rows": len(split.held_out.target),
            "held_out_from": split.held_out_from,
        }
        self._telemetry = Telemetry(self._run, parameters, metric=TRAIN_LOSS)
        # Steps of an attempt whose metrics never reached MLflow are in its checkpoint.
        for step, (train, held_out) in enumerate(zip(*self._losses.values(), strict=True), start=1):
            self._telemetry.record(step, {TRAIN_LOSS: train, HELD_OUT_LOSS: held_out})
        self._telemetry.begin()

    def _run_rounds(self, boosting: Boosting) -> None:
        settings, attempt = self._settings, self._attempt
        for step in attempt.steps(settings.rounds, checkpoint_every=settings.checkpoint_every):
            started = time.monotonic()
            losses = boosting.run_round()
            self._keep(step, losses)
            attempt.should_stop(wait=settings.round_seconds - (time.monotonic() - started))
            attempt.step_done(step, loss=losses[TRAIN_LOSS])
            if attempt.checkpoint_due():
                attempt.save(self._checkpoint(boosting).files)

    def _keep(self, step: int, losses: dict[str, float]) -> None:
        for name, loss in losses.items():
            self._losses[name].append(loss)
        if self._telemetry is not None:
            self._telemetry.record(step, losses)

    def _checkpoint(self, boosting: Boosting) -> Checkpoint:
        losses = {name: tuple(values) for name, values in self._losses.items()}
        return Checkpoint(step=boosting.step, model=boosting.dump(), losses=losses)

    def _deliver(self, boosting: Boosting, split: Split) -> None:
        """Leave the model where the operator finds it."""
        settings, run, telemetry = self._settings, self._run, self._telemetry
        if run is None or telemetry is None:
            if self._attempt.checkpoint_step != boosting.step:
                raise StorageFailure(f"{settings.checkpoint_uri}: the model was not written, and no MLflow is named")
            self._attempt.trained()
            return
        telemetry.stop()
        example = split.held_out.features.head(EXAMPLE_ROWS)
        prediction = boosting.predict(example)

        def log_all() -> str:
            telemetry.exchange()
            # Before the model: MLflow copies the metrics of its step to it.
            run.log_final(boosting.step, self._attempt.metrics)
            return run.log_model(boosting.booster, example=example, prediction=prediction, step=boosting.step)

        model_uri = persist(log_all, patience=settings.tracking_patience, wait=self._attempt.notice.wait)
        telemetry.close("FINISHED")
        self._attempt.trained(model_uri=model_uri)
