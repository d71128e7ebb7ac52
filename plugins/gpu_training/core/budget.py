"""What a lineage may spend, over both retriers: attempts, disruptions, GPU-seconds and wall time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields

DEFAULT_DISRUPTIONS: Final = 10
MAXIMUM_COUNT: Final = 100
_MAXIMUM_SECONDS: Final = 30 * 24 * 3600
_LEAST_RUN_S: Final = 10
"""A budget that pays for less than this much of a training's GPUs is a slip of the pen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The ceiling over all Jobs of a lineage, until a person renews it.

    :param attempts: pods that may fail by themselves, the last one included; disruptions and admission failures are not
        among them.
    :param disruptions: pods that may be lost to reclaim, preemption, node loss or refused admission.
    :param gpu_seconds: GPUs times seconds on a node; None for no limit but that of the wall time.
    :param wall_seconds: lives of the Jobs, added up.
    """

    attempts: int
    disruptions: int
    gpu_seconds: int | None
    wall_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredBudget:
    """The section `budget` of a training spec; None where the default holds."""

    attempts: int | None = None
    disruptions: int = DEFAULT_DISRUPTIONS
    gpu_seconds: int | None = None
    wall_seconds: int | None = None

    def resolve(self, *, backoff_limit: int, retries: int, deadline_seconds: int) -> Budget:
        """Give the budget with its defaults: as many attempts as the Job's backoff or Airflow's retries alone would
        give, never their product; and the Job's deadline as the wall time of all Jobs together."""
        return Budget(
            attempts=self.attempts if self.attempts is not None else max(backoff_limit, retries) + 1,
            disruptions=self.disruptions,
            gpu_seconds=self.gpu_seconds,
            wall_seconds=self.wall_seconds if self.wall_seconds is not None else deadline_seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What is left of a budget for one Job when it is made.

    :param failures: failures that the Job may make good itself; the one after them ends it.
    :param disruptions: disruptions that it may suffer; the one after them ends it.
    :param gpu_seconds: None for no limit.
    :param wall_seconds: of its life.
    """

    failures: int
    disruptions: int
    gpu_seconds: float | None
    wall_seconds: float


def parse_budget(fields: Fields, *, backoff_limit: int, deadline_seconds: int, gpus: int | None) -> DeclaredBudget:
    """Give the budget in a section.

    :param gpus: GPUs of one pod; None while it is a template.
    :raises ConfigurationError: a field is wrong, or contradicts another one.
    """
    attempts = _count(fields, "attempts", maximum=MAXIMUM_COUNT, unit="attempts")
    disruptions = fields.whole("disruptions", DEFAULT_DISRUPTIONS, minimum=0, maximum=MAXIMUM_COUNT, unit="disruptions")
    gpu_seconds = _count(fields, "gpu_seconds", maximum=_MAXIMUM_SECONDS * 1000, unit="GPU-seconds")
    wall_seconds = _count(fields, "wall_seconds", maximum=_MAXIMUM_SECONDS, unit="seconds")
    fields.finish()
    if attempts is not None and attempts <= backoff_limit:
        raise ConfigurationError(
            fields.path("attempts"),
            attempts,
            f"contradicts backoff_limit {backoff_limit}, by which a single Job makes {backoff_limit + 1} attempts: "
            "raise this one or lower that one",
        )
    if wall_seconds is not None and wall_seconds < deadline_seconds:
        raise ConfigurationError(
            fields.path("wall_seconds"),
            wall_seconds,
            f"contradicts deadline_seconds {deadline_seconds}, which a single Job may take: at least that is allowed",
        )
    if gpu_seconds is not None and gpus is not None and gpu_seconds < gpus * _LEAST_RUN_S:
        raise ConfigurationError(
            fields.path("gpu_seconds"),
            gpu_seconds,
            f"pays for less than {_LEAST_RUN_S} seconds of {gpus} GPUs: at least {gpus * _LEAST_RUN_S} is allowed",
        )
    return DeclaredBudget(
        attempts=attempts, disruptions=disruptions, gpu_seconds=gpu_seconds, wall_seconds=wall_seconds
    )


def _count(fields: Fields, name: str, *, maximum: int, unit: str) -> int | None:
    """Give a number from 1 on; None where it is absent, or a template that contradicts nothing yet."""
    value = fields.optional_whole(name, minimum=1, maximum=maximum, unit=unit)
    return None if fields.is_late(fields.take(name, None)) else value
