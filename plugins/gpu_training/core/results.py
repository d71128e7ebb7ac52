"""The result document of a training that Kubernetes calls successful, or the verdict on its absence.

Success is a Job that is Complete and a valid result: a program that ends with 0 when it is told to stop makes its Job
Complete, too.
"""

from __future__ import annotations

from typing import Final

from gpu_training.contract import ContractError, ExitCode, Result, ResultStatus, parse_result
from gpu_training.core.naming import ANNOTATION_DATA_DIGEST
from gpu_training.core.observation import Observation
from gpu_training.core.pods import PodObservation
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_WRITE_IT: Final = (
    "the training program has to write its result document (contract.render_result) before it exits with 0"
)
_EXIT_OTHERWISE: Final = (
    f"the training program has to exit with {ExitCode.INTERRUPTED:d} when SIGTERM stops it; a retry trains again"
)


def read_result(observation: Observation) -> Result | Verdict:
    """Give the result of the pods that succeeded, or what is wrong with it.

    Of several pods, as an Indexed Job has, one has to leave a valid result and none may say that it failed; the lowest
    index counts.
    """
    succeeded = sorted((pod for pod in observation.pods if pod.phase == "Succeeded"), key=lambda pod: pod.index or 0)
    found = [_result_of(pod, _expected_digest(observation)) for pod in succeeded]
    results = [entry for entry in found if isinstance(entry, Result)]
    faults = [entry for entry in found if isinstance(entry, Verdict)]
    denials = [fault for fault in faults if not is_absence(fault)]
    if denials or (faults and not results):
        return (denials or faults)[0]
    if results:
        return results[0]
    return Verdict(
        category=Category.RESULT_MISSING,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary="the Job is Complete, but its pod was gone before anybody read the result",
        remedy="raise ttl_seconds_after_finished, and see what removes pods; a retry trains again",
    )


def is_absence(verdict: Verdict) -> bool:
    """Whether a program that knows nothing of the contract, and did its work, would get this verdict, too."""
    return verdict.category in (Category.RESULT_MISSING, Category.RESULT_INVALID)


def _expected_digest(observation: Observation) -> str | None:
    return observation.job.annotations.get(ANNOTATION_DATA_DIGEST) if observation.job is not None else None


def _result_of(pod: PodObservation, expected_digest: str | None) -> Result | Verdict:
    message = pod.training.message if pod.training is not None else ""
    try:
        result = parse_result(message)
    except ContractError as exc:
        if pod.disruption is not None:
            said = f"pod {pod.name} was told to stop ({pod.disruption.reason}) and exited with 0: {exc}"
            return _fault(Category.INTERRUPTED, said, _EXIT_OTHERWISE, action=Action.RETRY)
        category = Category.RESULT_INVALID if message.strip() else Category.RESULT_MISSING
        return _fault(category, f"pod {pod.name}: {exc}", _WRITE_IT)
    if result.status is not ResultStatus.TRAINED:
        said = f"pod {pod.name} exited with 0, but its result says {result.status}: {result.error}"
        return _fault(Category.APPLICATION_ERROR, said, "the training program has to exit with another code than 0")
    if expected_digest is not None and result.data_digest not in (None, expected_digest):
        said = f"pod {pod.name} trained on data with digest {result.data_digest}: {expected_digest} was to be used"
        return _fault(Category.BAD_DATA, said, "the training program has to read the data version that it is given")
    return result


def _fault(category: Category, summary: str, remedy: str, *, action: Action = Action.FAIL) -> Verdict:
    return Verdict(category=category, owner=Owner.APPLICATION, action=action, summary=summary, remedy=remedy)
