"""Why the trainings that wait do so."""

from __future__ import annotations

from dataclasses import replace

from gpu_training.core.pending import diagnose
from gpu_training.core.pod_demand import demand_of
from gpu_training.core.status import TrainingStatus
from gpu_training.core.surroundings import Surroundings


def is_to_explain(status: TrainingStatus) -> bool:
    """Whether there is a Job that waits, so that what is around it is worth a look."""
    return status.waits and status.observation is not None


def explained(status: TrainingStatus, around: Surroundings, now: float) -> TrainingStatus:
    """Give the status with why the training waits, if it does.

    :param now: seconds since 1970.
    """
    if not is_to_explain(status) or status.observation is None:
        return status
    return replace(status, pending=diagnose(status.observation, demand_of(status.wanting), around, now))
