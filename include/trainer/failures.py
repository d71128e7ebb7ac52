"""Why a training ends early, and the exit code that each cause has in the contract."""

from __future__ import annotations

import re
from typing import ClassVar

from gpu_training.contract import ExitCode

_CUDA_OUT_OF_MEMORY = re.compile(
    r"cudaErrorMemoryAllocation|cuda[^\n]*out of memory|CUDA_ERROR_OUT_OF_MEMORY", re.IGNORECASE
)
_XGBOOST_ALLOCATION = re.compile(r"Memory allocation error on worker \d+")
"""What XGBoost writes before its figures of free and requested device memory
(https://github.com/dmlc/xgboost/blob/master/src/common/device_helpers.cu)."""


class TrainingFailure(Exception):
    """A training that can not go on. Its text is one line for a person."""

    exit_code: ClassVar[ExitCode] = ExitCode.OTHER


class ConfigurationFailure(TrainingFailure):
    """An argument or variable that no second try would cure."""

    exit_code = ExitCode.BAD_CONFIGURATION


class DataFailure(TrainingFailure):
    """The data version is not what was asked for, or can not be trained on."""

    exit_code = ExitCode.BAD_DATA


class LossFailure(TrainingFailure):
    """The loss left the finite numbers."""

    exit_code = ExitCode.NAN_LOSS


class Interrupted(TrainingFailure):
    """SIGTERM arrived."""

    exit_code = ExitCode.INTERRUPTED


class StorageFailure(TrainingFailure):
    """A store did not answer as it should; another try may find it well."""


class TrackingFailure(TrainingFailure):
    """MLflow did not take what the training must leave there."""


def exit_code_of(error: BaseException) -> ExitCode:
    """Give the exit code of any error that ends a training; OTHER for what the contract does not name.

    Memory of the host that runs out (MemoryError, `std::bad_alloc` alone) is OTHER: more GPU memory would not cure it.
    """
    if isinstance(error, TrainingFailure):
        return error.exit_code
    text = str(error)
    if _CUDA_OUT_OF_MEMORY.search(text) or _XGBOOST_ALLOCATION.search(text):
        return ExitCode.CUDA_OUT_OF_MEMORY
    return ExitCode.OTHER


def summary_of(error: BaseException) -> str:
    """Give one line that tells a person what happened."""
    if isinstance(error, TrainingFailure):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
