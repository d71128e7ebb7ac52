"""Which pods of a Job that is Complete can have left its result, and the texts in which they may have.

Those that were seen to succeed, and, where fewer were seen than did, those of whose end nothing was seen: a pod may be
deleted before anybody has read its termination message, and its log may have told the result by then. What an attempt
said that failed, by its end or by its own word, is never taken for a result, nor what the newest one's predecessor
said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_training.contract import ContractError, ResultStatus, parse_result
from gpu_training.core.observation import Observation
from gpu_training.core.pods import ContainerState, PodObservation

_FAR: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """A pod that succeeded, as far as anybody can tell.

    :param uid: "" where the pod itself was not seen.
    :param index: of an Indexed Job's pod; None for others.
    :param message: its termination message; None where its end was not seen.
    :param told: the text of the result line of its log; None where it has none.
    :param containers: how many containers share the room for termination messages, init containers too.
    :param stopped_by: why it was told to stop; "" where it was not.
    """

    pod: str
    uid: str = ""
    index: int | None = None
    message: str | None = None
    told: str | None = None
    containers: int = 1
    stopped_by: str = ""


def bearers_of(observation: Observation) -> tuple[Bearer, ...]:
    """Give the pods that count, the lowest index first; none where nothing tells which they are."""
    job = observation.job
    seen = [pod for pod in observation.pods if pod.phase == "Succeeded"]
    succeeded = max(1, job.succeeded) if job is not None else 1
    missing = succeeded - len(seen)
    if missing > 0:
        seen += _unseen(observation, {pod.index for pod in seen if pod.index is not None})[:missing]
    if not seen and (name := _only_teller(observation)) is not None:
        return (Bearer(pod=name, told=observation.told_results[name]),)
    return tuple(_bearer(pod, observation) for pod in sorted(seen, key=lambda pod: pod.index or 0))


def _unseen(observation: Observation, done: set[int]) -> list[PodObservation]:
    """Give the pods that may have succeeded unseen, the newest first, and only the newest of an index."""
    found: dict[int | str, PodObservation] = {}
    for pod in reversed(observation.pods):
        if pod.ended or pod.failure is not None or pod.index in done:
            continue
        if not _says_that_it_failed(observation.told_results.get(pod.name)):
            found.setdefault(pod.name if pod.index is None else pod.index, pod)
    return sorted(found.values(), key=lambda pod: pod.created_at or _FAR, reverse=True)


def _only_teller(observation: Observation) -> str | None:
    """Give the one pod whose log told a result though no pod was seen; None where it may be a failed one's."""
    names = [name for name, told in observation.told_results.items() if not _says_that_it_failed(told)]
    failed = observation.job.failed if observation.job is not None else 0
    return names[0] if len(names) == 1 and failed == 0 and not observation.pods else None


def _says_that_it_failed(told: str | None) -> bool:
    """Whether a log told the result of a failure: a pod that says so does not end with 0, and did not succeed."""
    try:
        return told is not None and parse_result(told).status is ResultStatus.FAILED
    except ContractError:
        return False


def _bearer(pod: PodObservation, observation: Observation) -> Bearer:
    training = pod.training
    ended = pod.ended or (training is not None and training.state is ContainerState.TERMINATED)
    return Bearer(
        pod=pod.name,
        uid=pod.uid,
        index=pod.index,
        message=(training.message if training is not None else "") if ended else None,
        told=observation.told_results.get(pod.name),
        containers=len(pod.init_containers) + len(pod.containers),
        stopped_by=pod.stopped_by,
    )
