"""Why a training ends early, and the exit code that each cause has in the contract."""

from __future__ import annotations

from typing import ClassVar

from gpu_training.attempt import Failure
from gpu_training.contract import ExitCode


class TrainingFailure(Failure):
    """A training that can not go on."""

    code: ClassVar[ExitCode] = ExitCode.OTHER

    def __init__(self, text: str) -> None:
        super().__init__(text, self.code)


class ConfigurationFailure(TrainingFailure):
    """An argument or variable that no second try would cure."""

    code = ExitCode.BAD_CONFIGURATION


class DataFailure(TrainingFailure):
    """The data version is not what was asked for, or can not be trained on."""

    code = ExitCode.BAD_DATA


class LossFailure(TrainingFailure):
    """The loss left the finite numbers."""

    code = ExitCode.NAN_LOSS


class StorageFailure(TrainingFailure):
    """A store did not answer as it should; another try may find it well."""


class TrackingFailure(TrainingFailure):
    """MLflow did not take what the training must leave there."""
