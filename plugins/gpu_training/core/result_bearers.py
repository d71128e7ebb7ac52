"""Which pods of a Job that is Complete can have left its result, and the texts in which they may have.

Those that were seen to succeed, and, where fewer were seen than did, those of whose end nothing was seen: a pod may be
deleted before anybody has read its termination message, and its log may have told the result by then. What an attempt
said that failed, by its end or by its own word, is never taken for a result, nor what the newest one's predecessor
said. A line of a log is a pod's own word where it bears the pod's UID: a program may print anything.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from gpu_training.contract import ContractError, ResultStatus, parse_result
from gpu_training.core.naming import ANNOTATION_DATA_DIGEST, ANNOTATION_DATA_VERSION
from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pods import ContainerState, PodObservation

_FAR: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearer:
    """A pod that succeeded, as far as anybody can tell.

    :param uid: "" where the pod itself was not seen.
    :param index: of an Indexed Job's pod; None for others.
    :param message: its termination message; None where its end was not seen.
    :param told: the text of the result line of its log; None where it has none of its own.
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
        if not _says_that_it_failed(_own(observation.told_results.get(pod.name), pod.uid)):
            found.setdefault(pod.name if pod.index is None else pod.index, pod)
    return sorted(found.values(), key=lambda pod: pod.created_at or _FAR, reverse=True)


def _only_teller(observation: Observation) -> str | None:
    """Give the one pod whose log told a result though no pod was seen; None where it may be a failed one's."""
    names = [
        name
        for name, told in observation.told_results.items()
        if _own(told, "") is not None
        and not _says_that_it_failed(told)
        and _names_what_was_given(told, observation.job)
    ]
    failed = observation.job.failed if observation.job is not None else 0
    return names[0] if len(names) == 1 and failed == 0 and not observation.pods else None


def _own(told: str | None, uid: str) -> str | None:
    """Give the text of a result line that is a pod's own; None for another, such as a sample that the program prints.

    :param uid: of the pod; "" where it is not known: then the text has to say any.
    """
    if told is None:
        return None
    try:
        body = json.loads(told)
    except (ValueError, RecursionError):
        return told if uid and uid in told else None
    says = body.get("pod_uid") if isinstance(body, dict) else None
    return told if says and says == (uid or says) else None


def _names_what_was_given(told: str, job: JobObservation | None) -> bool:
    """Whether a text tells the data or the MLflow run that the Job was given, where it was given any."""
    try:
        result = parse_result(told)
    except ContractError:
        return False
    notes = job.annotations if job is not None else {}
    given = {
        (result.data_version, notes.get(ANNOTATION_DATA_VERSION)),
        (result.data_digest, notes.get(ANNOTATION_DATA_DIGEST)),
        (result.mlflow_run_id, job.mlflow_run_id if job is not None else None),
    }
    known = {(says, was) for says, was in given if was}
    return not known or any(says == was for says, was in known)


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
        told=_own(observation.told_results.get(pod.name), pod.uid),
        containers=len(pod.init_containers) + len(pod.containers),
        stopped_by=pod.stopped_by,
    )
