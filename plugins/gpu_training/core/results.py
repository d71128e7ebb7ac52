"""The result document of a training that Kubernetes calls successful, or the verdict on its absence.

Success is a Job that is Complete and a valid result: a program that ends with 0 when it is told to stop makes its Job
Complete, too. The termination message counts where it is valid; else the result line of the log, which says the same
once more for the case that the pod is deleted before anybody has read the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_training.contract import RESULT_PREFIX, ExitCode, Result
from gpu_training.core.naming import ANNOTATION_DATA_DIGEST, ANNOTATION_DATA_VERSION
from gpu_training.core.observation import Observation
from gpu_training.core.program_words import words_of
from gpu_training.core.result_bearers import Bearer, bearers_of
from gpu_training.core.result_document import Flaw, Given, read_document
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_ABSENCES: Final = (Category.RESULT_MISSING, Category.RESULT_INVALID)

_EXIT_OTHERWISE: Final = (
    f"the training program has to exit with {ExitCode.INTERRUPTED:d} when SIGTERM stops it; a retry goes on from the "
    "last checkpoint"
)
_BE_READ: Final = (
    "a retry goes on from the last checkpoint; see what removes pods, raise ttl_seconds_after_finished, and have the "
    f"program print its result as a line that begins with {RESULT_PREFIX.strip()} and bears its pod_uid, too"
)

_LONGEST_SUMMARY: Final = 1000
_LOST: Final = Flaw(
    category=Category.RESULT_MISSING,
    said="the Job is Complete, but the pod was gone before anybody read its result, and its log did not tell it",
    remedy=_BE_READ,
)

_WORTH_TELLING: Final = ("model_uri", "mlflow_run_id", "data_version", "data_digest", "metrics", "last_step")
"""Fields in which two results of one training contradict each other; device and pod differ between ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """What one pod left.

    :param lost: whether its end was not seen and its log told nothing.
    """

    bearer: Bearer
    answer: Result | Flaw
    remarks: tuple[str, ...] = ()
    lost: bool = False


def read_result(observation: Observation) -> Result | Verdict:
    """Give the result of the pods that succeeded, or what is wrong with it. Total: any text in any pod gives one of the
    two.

    Of several pods, as an Indexed Job has, one has to leave a valid result and none may say that it failed; the lowest
    index counts.
    """
    return _read(observation)[0]


def remarks_on_result(observation: Observation) -> tuple[str, ...]:
    """Give what the task log has to say about a result that counts: that it comes from a log, that others contradict
    it, or, where none is required, why there is none. A few lines at most."""
    return _read(observation)[1]


def is_absence(verdict: Verdict) -> bool:
    """Whether a program that knows nothing of the contract, and did its work, would get this verdict, too."""
    return verdict.category in _ABSENCES


def _read(observation: Observation) -> tuple[Result | Verdict, tuple[str, ...]]:
    given = _given(observation)
    findings = [_finding(bearer, given) for bearer in bearers_of(observation)]
    good = [(each, each.answer) for each in findings if isinstance(each.answer, Result)]
    bad = [(each, each.answer) for each in findings if isinstance(each.answer, Flaw)]
    denials = [(each, flaw) for each, flaw in bad if flaw.category not in _ABSENCES]
    if denials:
        return _verdict(*denials[0]), ()
    if good:
        (first, result), *others = good
        odd = [(each, flaw) for each, flaw in bad if flaw.category is Category.RESULT_INVALID]
        return result, (*first.remarks, *_disagreement(first, result, others), *_ignored(odd))
    bad.sort(key=lambda pair: not pair[0].lost)  # where one was lost, a retry may bring it
    verdict = _verdict(*bad[0]) if bad else _lost(observation)
    return verdict, (f"no result is handed on, and none is required: {verdict.summary}",)


def _given(observation: Observation) -> Given:
    job = observation.job
    if job is None:
        return Given()
    return Given(
        data_version=job.annotations.get(ANNOTATION_DATA_VERSION, ""),
        data_digest=job.annotations.get(ANNOTATION_DATA_DIGEST, ""),
        mlflow_run_id=job.mlflow_run_id,
    )


def _finding(bearer: Bearer, given: Given) -> _Finding:
    told = read_document(bearer.told, given, pod_uid=bearer.uid) if bearer.told is not None else None
    if bearer.message is None:
        if told is None:
            return _Finding(bearer=bearer, answer=_LOST, lost=True)
        return _from_log(bearer, told, "its termination message was not seen before the pod was gone")
    left = read_document(bearer.message, given, pod_uid=bearer.uid, containers=bearer.containers)
    if isinstance(left, Result):
        return _Finding(bearer=bearer, answer=left, remarks=_contradiction(bearer, left, told))
    if told is None or left.category not in _ABSENCES:
        return _Finding(bearer=bearer, answer=_stopped(bearer, left))
    if isinstance(told, Result) or told.category not in _ABSENCES:
        return _from_log(bearer, told, left.said)
    both = f"{left.said}; nor is the result line of its log valid: {told.said}"
    return _Finding(bearer=bearer, answer=_stopped(bearer, Flaw(category=left.category, said=both, remedy=left.remedy)))


def _from_log(bearer: Bearer, told: Result | Flaw, why: str) -> _Finding:
    """Give what a log told, where the termination message gives no result."""
    if isinstance(told, Flaw):
        said = f"by the result line of its log: {told.said} ({why})"
        flaw = _stopped(bearer, Flaw(category=told.category, said=said, remedy=told.remedy))
        return _Finding(bearer=bearer, answer=flaw)
    remark = f"the result of pod {bearer.pod} is the one that its log tells: {why}"
    return _Finding(bearer=bearer, answer=told, remarks=(remark,))


def _stopped(bearer: Bearer, flaw: Flaw) -> Flaw:
    """Give the flaw as it is of a pod that may have been told to stop, and then ended with 0."""
    if not bearer.stopped_by or flaw.category not in _ABSENCES:
        return flaw
    said = f"it was told to stop ({bearer.stopped_by}) and exited with 0: {flaw.said}"
    return Flaw(category=Category.INTERRUPTED, said=said, remedy=_EXIT_OTHERWISE)


def _contradiction(bearer: Bearer, left: Result, told: Result | Flaw | None) -> tuple[str, ...]:
    """Give what to say where a log tells something else than the valid termination message."""
    if told is None:
        return ()
    if isinstance(told, Flaw):
        return (f"pod {bearer.pod}: the result line of its log does not count: {told.said}",)
    if not (fields := _differing(left, told)):
        return ()
    return (f"pod {bearer.pod}: its log tells another {fields} than its termination message, which counts",)


def _disagreement(first: _Finding, result: Result, others: list[tuple[_Finding, Result]]) -> tuple[str, ...]:
    odd = [(each.bearer.pod, fields) for each, other in others if (fields := _differing(result, other))]
    if not odd:
        return ()
    pod, fields = odd[0]
    more = f", and {len(odd) - 1} more do" if len(odd) > 1 else ""
    return (f"the result of pod {first.bearer.pod} counts: pod {pod} leaves another {fields}{more}",)


def _ignored(odd: list[tuple[_Finding, Flaw]]) -> tuple[str, ...]:
    if not odd:
        return ()
    (finding, flaw), more = odd[0], f", and {len(odd) - 1} more are like it" if len(odd) > 1 else ""
    return (f"pod {finding.bearer.pod} leaves a result that does not count: {flaw.said}{more}",)


def _differing(one: Result, other: Result) -> str:
    return ", ".join(name for name in _WORTH_TELLING if getattr(one, name) != getattr(other, name))


def _verdict(finding: _Finding, flaw: Flaw) -> Verdict:
    is_worth_a_retry = finding.lost or flaw.category is Category.INTERRUPTED
    return Verdict(
        category=flaw.category,
        owner=Owner.INFRASTRUCTURE if finding.lost else Owner.APPLICATION,
        action=Action.RETRY if is_worth_a_retry else Action.FAIL,
        summary=words_of(f"pod {finding.bearer.pod}: {flaw.said}", longest=_LONGEST_SUMMARY),
        remedy=flaw.remedy,
    )


def _lost(observation: Observation) -> Verdict:
    """Give the verdict where no pod can be named."""
    tellers = len(observation.told_results)
    logs = (
        f"the logs of {tellers} pods tell one, and which of them succeeded was not seen"
        if tellers
        else "no log told it"
    )
    return Verdict(
        category=Category.RESULT_MISSING,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary=f"the Job is Complete, but its pod was gone before anybody read the result; {logs}",
        remedy=_BE_READ,
    )
