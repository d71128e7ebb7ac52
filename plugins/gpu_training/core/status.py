"""The trainings of a namespace as one look shows them: what each does, since when, and what it has taken so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_training.contract import Progress
from gpu_training.core.attempts import Attempt
from gpu_training.core.clock_readings import Reading
from gpu_training.core.documents import Document
from gpu_training.core.observation import Observation
from gpu_training.core.pending_report import Report
from gpu_training.core.phase import Phase
from gpu_training.core.verdict import Verdict
from gpu_training.core.waiters import Waiters

UNKNOWN: Final = "unknown"
"""Phase of a Job whose pods may not be seen."""
PLANNED: Final = "planned"
"""Phase of a Job that the ledger has announced and nobody has made yet."""

_WAITING: Final = frozenset({PLANNED, Phase.PENDING, Phase.SUSPENDED, Phase.QUEUED, Phase.STARTING, Phase.RETRYING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What was read of a namespace: ledgers first, pods last, so that nothing known seems to be gone.

    :param pods: None when they could not be read.
    :param ledgers: the ConfigMaps; None when they could not be read.
    :param hidden: what could not be read, and why.
    """

    jobs: tuple[dict[str, Any], ...] = ()
    pods: tuple[dict[str, Any], ...] | None = ()
    ledgers: tuple[dict[str, Any], ...] | None = ()
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStatus:
    """One training.

    :param phase: of :class:`Phase` or :class:`Ending`, `planned` or `unknown`. Stable names.
    :param since: when the phase began, in seconds since 1970; None when that is not known.
    :param detail: one line about the phase.
    :param data_version: empty when it is not known: ledgers do not hold it.
    :param ended: whether it is over.
    :param verdict: what its end means; None while it lives and when it succeeded.
    :param pending: why it waits; None when it does not, or when nobody has looked yet.
    :param attempts: of the generation, over all its Jobs.
    :param gpu_seconds: of the generation, over all its Jobs.
    :param waiters: task tries that wait on it; None when who waits is not known.
    :param progress: the newest that is known of the training, or of what ran before it began to wait; None for none.
    :param progress_at: when that was told, in seconds since 1970; None when it is not known.
    :param progress_pod: whose progress it is; empty when there is none.
    :param jobs: names of all Jobs of the lineage that are known.
    :param observation: what it was read from; None when its Job is gone.
    :param wanting: the pod that waits, or the template of its pods: what asks for a node.
    """

    model: str
    namespace: str
    deployment: str
    job: str
    generation: int
    phase: str
    data_version: str = ""
    since: float | None = None
    detail: str = ""
    ended: bool = False
    verdict: Verdict | None = None
    pending: Report | None = None
    clocks: tuple[Reading, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    gpu_seconds: float = 0.0
    waiters: Waiters | None = ()
    progress: Progress | None = None
    progress_at: float | None = None
    progress_pod: str = ""
    hidden: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    observation: Observation | None = field(default=None, repr=False)
    wanting: Document = field(default_factory=dict, repr=False)

    @property
    def waits(self) -> bool:
        """Whether no attempt of it runs, though one is meant to."""
        return self.phase in _WAITING

    @property
    def progresses(self) -> bool:
        """Whether the progress is that of a pod which runs now, and not of one that ran before."""
        if self.progress is None or self.phase != Phase.RUNNING:
            return False
        pods = self.observation.pods if self.observation is not None else ()
        return any(pod.name == self.progress_pod and not pod.ended and not pod.gone for pod in pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The trainings of a namespace, those first that somebody has to look at.

    :param at: when it was looked at, in seconds since 1970.
    :param models: of all trainings that were found, whichever of them are given.
    :param hidden: what could not be read, and why.
    """

    trainings: tuple[TrainingStatus, ...]
    at: float
    models: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


def in_order(statuses: Iterable[TrainingStatus]) -> tuple[TrainingStatus, ...]:
    """Give them with those first that somebody has to act on, then those that wait, run, and have ended."""
    return tuple(sorted(statuses, key=_rank))


def named(statuses: Iterable[TrainingStatus], name: str) -> tuple[TrainingStatus, ...]:
    """Give the trainings of a model, or the one that a Job belongs to."""
    return tuple(status for status in statuses if name == status.model or name in status.jobs)


def _rank(status: TrainingStatus) -> tuple[int, float, str]:
    since = status.since if status.since is not None else 0.0
    if status.ended:
        return 4, -since, status.job
    if status.pending is not None and not status.pending.curable:
        return 0, since, status.job
    order = 1 if status.waits else 2 if status.phase == Phase.RUNNING else 3
    return order, since, status.job
