"""Which clocks of a training run now, and how long they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.clocks import Clock, Clocks
from gpu_training.core.observation import Observation
from gpu_training.core.phase import Phase
from gpu_training.core.pods import ContainerState, PodObservation
from gpu_training.core.queue_time import waits_since

# The next pod may be kept from coming after an attempt, too.
_MAY_WAIT: Final = frozenset({Phase.PENDING, Phase.SUSPENDED, Phase.QUEUED, Phase.RETRYING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A clock that runs.

    :param since: seconds since 1970.
    :param limit: seconds; None for no limit.
    """

    clock: Clock
    since: float
    elapsed: float
    limit: int | None

    @property
    def left(self) -> float | None:
        """Seconds until it has run out, 0 when it has; None where it never does."""
        return None if self.limit is None else max(0.0, self.limit - self.elapsed)


def read_clocks(
    observation: Observation,
    phase: Phase,
    clocks: Clocks,
    now: float,
    *,
    progress_at: float | None = None,
    attempts: Sequence[Attempt] = (),
) -> tuple[Reading, ...]:
    """Give the clocks that run now. Of several pods it is the one that has waited, or run, the longest.

    :param phase: what the training is doing, as :func:`gpu_training.core.decide.decide` says.
    :param now: seconds since 1970.
    :param progress_at: when the last progress was reported; None when none was.
    :param attempts: that the ledger knows: pods that are gone are not in the observation of a new watcher.
    """
    live = [pod for pod in observation.pods if not pod.ended and not pod.gone]
    running = _first(_running_since(pod) for pod in live)
    since: dict[Clock, float | None] = {
        Clock.QUEUE: waits_since(observation, now, attempts) if phase in _MAY_WAIT else None,
        Clock.STARTUP: _first(
            pod.scheduled_at for pod in live if pod.node and not pod.deleting and not _has_begun(pod)
        ),
        Clock.RUN: running,
        Clock.STALL: None if running is None else max(running, progress_at or running),
        Clock.TOTAL: observation.job.created_at if observation.job is not None else None,
    }
    return tuple(
        Reading(clock=clock, since=began, elapsed=max(0.0, now - began), limit=clocks.limit(clock))
        for clock, began in since.items()
        if began is not None and (clock is not Clock.STALL or clocks.stall_seconds is not None)
    )


def _has_begun(pod: PodObservation) -> bool:
    training = pod.training
    return training is not None and training.state in (ContainerState.RUNNING, ContainerState.TERMINATED)


def _running_since(pod: PodObservation) -> float | None:
    training = pod.training
    if training is None or training.state is not ContainerState.RUNNING or training.started_at is None:
        return None
    # A node whose clock is behind dates the start before the node was given.
    return max(training.started_at, pod.scheduled_at or training.started_at)


def _first(moments: Iterable[float | None]) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)


def run_out(readings: tuple[Reading, ...]) -> Reading | None:
    """Give the clock that has run out; None while none has."""
    return next((reading for reading in readings if reading.left == 0), None)


def soonest(readings: tuple[Reading, ...]) -> float | None:
    """Give the seconds until the first clock runs out; None where none does."""
    return min((reading.left for reading in readings if reading.left is not None), default=None)
