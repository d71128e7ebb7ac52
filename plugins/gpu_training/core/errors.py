"""Errors of the product, branched by what the caller can do about them."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpu_training.core.verdict import Verdict

_LONGEST_SHOWN: Final = 160

_REPR: Final = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 120
_REPR.maxlevel = 3


def shown(value: object) -> str:
    """Give a value as it stands in a message: on one line, of bounded length, however large or odd the value is."""
    try:
        text = _REPR.repr(value)
    except Exception:  # a message about bad input must not fail on that input
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _shown_path(path: str) -> str:
    return path if len(path) <= _LONGEST_SHOWN and path.isprintable() else shown(path)


class GpuTrainingError(Exception):
    """Root of the product's errors. The message is for the person who reads the task log."""


class ConfigurationError(GpuTrainingError):
    """A spec, model file, parameter or connection is wrong: nothing but an edit helps.

    :param field: path of the field, as written in the model's YAML (`training.resources.limits.memory`).
    :param value: what was found there.
    :param allowed: what is allowed, and what to do.
    """

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{_shown_path(field)}={shown(value)}: {allowed}")
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


class LedgerConflict(GpuTrainingError):
    """What stands under the ledger's name is not ours, or was edited. It is never overwritten."""


class StaleTry(GpuTrainingError):
    """A later try of the same task waits on the Job by now: this one has no say in it any more."""


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
