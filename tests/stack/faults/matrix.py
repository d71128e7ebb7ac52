"""The matrix of deaths as data: who is killed, when, and how the pods of that training end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Victim(StrEnum):
    """What is killed, always by SIGKILL. What each is in Airflow is in docs/faults.md."""

    TASK = "task"
    """The process that runs the code of the moment: the task's, and while the task is deferred that of its trigger."""
    WORKER = "worker"
    """The process of the executor that looks after the task, with the task; where there is none, the scheduler with
    all of its workers."""
    TRIGGERER = "triggerer"


class Point(StrEnum):
    """Moments in the life of a run, in their order."""

    BEFORE_CREATE = "before-create"
    """The request that creates the Job is on its way and has not reached the API server."""
    BEFORE_DEFER = "before-defer"
    """The Job is there and its pod on a node; the answer has not come back."""
    DEFERRED = "deferred"
    """The task waits in its trigger; its pod runs."""
    BEFORE_RESUME = "before-resume"
    """The trigger has fired, the task has begun again, and has done nothing yet."""
    REGISTER = "register"
    """MLflow has made the model version; its answer has not come back."""
    CLEAN_UP = "clean-up"
    """The API server has deleted the Job; its answer has not come back."""


class Outcome(StrEnum):
    """How the pods of a training end. All three kinds of training succeed in the end."""

    SUCCESS = "success"
    FAILURE = "failure"
    """The first pod fails, and its Job with it; Airflow's next try succeeds."""
    DISRUPTION = "disruption"
    """The node ends the first pod; the Job's next one succeeds."""


class Strike(StrEnum):
    """Deaths that can be dealt at the same moment."""

    ALONE = "alone"
    """The death of one run's process, which no other run notices."""
    TRIGGER_PROCESS = "trigger process"
    TRIGGERER = "triggerer"
    SCHEDULER = "scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of the matrix.

    :param victim: None: nobody dies, to know what the training costs.
    """

    victim: Victim | None
    point: Point | None
    outcome: Outcome

    @property
    def name(self) -> str:
        """`victim.point.outcome`, or `nobody.outcome`."""
        if self.victim is None or self.point is None:
            return f"nobody.{self.outcome}"
        return f"{self.victim}.{self.point}.{self.outcome}"

    @property
    def strike(self) -> Strike:
        if self.victim is Victim.TRIGGERER:
            return Strike.TRIGGERER
        if self.point is not Point.DEFERRED:
            return Strike.ALONE
        return Strike.TRIGGER_PROCESS if self.victim is Victim.TASK else Strike.SCHEDULER

    @property
    def has_pod_in_flight(self) -> bool:
        """Whether a pod holds its GPU when the victim dies."""
        return self.point in (Point.BEFORE_DEFER, Point.DEFERRED)

    def uninterrupted(self) -> Cell:
        """Give the cell of the same outcome in which nobody dies."""
        return Cell(victim=None, point=None, outcome=self.outcome)


MATRIX: tuple[Cell, ...] = tuple(
    Cell(victim=victim, point=point, outcome=outcome) for victim in Victim for point in Point for outcome in Outcome
)


def cell_named(name: str) -> Cell:
    """Give a cell of the matrix by its name."""
    return next(cell for cell in MATRIX if cell.name == name)


DOZEN: tuple[Cell, ...] = tuple(
    cell_named(name)
    for name in (
        "task.before-create.success",
        "worker.before-create.failure",
        "task.before-defer.disruption",
        "worker.before-defer.success",
        "task.before-resume.failure",
        "worker.before-resume.disruption",
        "task.register.success",
        "worker.clean-up.failure",
        "triggerer.before-resume.success",
        "triggerer.deferred.failure",
        "triggerer.register.disruption",
        "worker.deferred.success",
    )
)
"""What `make test` runs: each victim four times, each outcome at least three times, each point at least once."""


def choose(patterns: Sequence[str], cells: Iterable[Cell] = MATRIX) -> list[Cell]:
    """Give the cells that a pattern names: `worker.*.failure`, or a word such as `deferred`. None given: all cells.

    :raises ValueError: a pattern names none.
    """
    known = list(cells)
    if not patterns:
        return known
    chosen: set[Cell] = set()
    for pattern in patterns:
        found = {cell for cell in known if fnmatchcase(cell.name, pattern) or pattern in cell.name.split(".")}
        if not found:
            words = ", ".join([*Victim, *Point, *Outcome])
            raise ValueError(f"cell {pattern!r}: none is named so; give VICTIM.POINT.OUTCOME of {words}, or *")
        chosen |= found
    return [cell for cell in known if cell in chosen]
