"""Errors of the product, branched by what the caller can do about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpu_training.core.classify import Verdict


class GpuTrainingError(Exception):
    """Root of the product's errors. The message is for the person who reads the task log."""


class ConfigurationError(GpuTrainingError):
    """A spec, model file, parameter or connection is wrong: nothing but an edit helps.

    :param field: path of the field, as written in the model's YAML (`training.resources.limits.memory`).
    :param value: what was found there.
    :param allowed: what is allowed, and what to do.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}={value!r}: {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class DataVersionError(GpuTrainingError):
    """A data version is unknown, incomplete or not what it says it is."""


class ClusterError(GpuTrainingError):
    """The Kubernetes API did not do what was asked.

    :param status: HTTP status of its answer; None when there was none.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ClusterUnavailable(ClusterError):
    """The API can not be reached or is overloaded: trying again may help."""


class ClusterRejected(ClusterError):
    """The API refused the request for good: permissions, quota of objects, an invalid document."""


class JobNameConflict(ClusterError):
    """An object that is not ours stands under the Job's name. It is never touched."""


class TrainingFailed(GpuTrainingError):
    """The training ended without a model.

    :param verdict: what it means, and whose it is.
    """

    def __init__(self, message: str, verdict: Verdict) -> None:
        super().__init__(message)
        self.verdict = verdict


class RegistryError(GpuTrainingError):
    """MLflow can not be reached or refused a request.

    :param transient: whether trying again may help.
    """

    def __init__(self, message: str, *, transient: bool) -> None:
        super().__init__(message)
        self.transient = transient
