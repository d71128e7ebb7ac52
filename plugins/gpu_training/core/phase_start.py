"""Since when a training does what it does, from the times that Kubernetes wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpu_training.core.attempts import Attempt
from gpu_training.core.observation import Observation
from gpu_training.core.phase import Phase
from gpu_training.core.pods import PodObservation
from gpu_training.core.queue_time import waits_since


def phase_since(observation: Observation, phase: Phase, now: float, attempts: Sequence[Attempt] = ()) -> float | None:
    """Give when the phase of a training that has not ended began, in seconds since 1970; None when that is not known.

    Of several pods, it is the one that has been in it for longest.

    :param phase: what :func:`gpu_training.core.decide.decide` says of the observation.
    :param now: seconds since 1970.
    :param attempts: that the ledger knows.
    """
    live = [pod for pod in observation.pods if not pod.ended and not pod.gone]
    job = observation.job
    match phase:
        case Phase.PENDING | Phase.SUSPENDED | Phase.QUEUED:
            return waits_since(observation, now, attempts)
        case Phase.STARTING:
            return _first(pod.scheduled_at for pod in live if pod.node and _started_at(pod) is None)
        case Phase.RUNNING:
            return _first(_started_at(pod) for pod in live)
        case Phase.RETRYING:
            disrupted = [pod.disruption.changed_at for pod in live if pod.disruption is not None]
            return _first(disrupted) if live else _last(pod.last_finished_at for pod in observation.pods)
        case Phase.FINISHING:
            decided = (job.condition("FailureTarget") or job.condition("SuccessCriteriaMet")) if job else None
            return decided.changed_at if decided else _last(pod.last_finished_at for pod in observation.pods)
    return None


def _started_at(pod: PodObservation) -> float | None:
    return pod.training.started_at if pod.training is not None else None


def _first(moments: Iterable[float | None]) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _last(moments: Iterable[float | None]) -> float | None:
    return max((moment for moment in moments if moment is not None), default=None)
