"""One decision for trigger, operator and clean-up alike: (observation, policy, now) -> wait, or how it ended.

A Job's conditions are the truth: never a count of failed pods, never the end of a watch or of a log. Level-based: the
same observation gives the same decision, whatever came before (except that time passes), and a decision that a
training has ended is not taken back by anything that Kubernetes can report later about the same Job.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.contract import ContractError, Result, ResultStatus, parse_result
from gpu_training.core.attempts import Attempt, attempts_of
from gpu_training.core.classify import Action, Category, Owner, Verdict
from gpu_training.core.observation import (
    Condition,
    ContainerState,
    JobObservation,
    Observation,
    PodObservation,
)


class Phase(StrEnum):
    """What a training that has not ended is doing. Stable names."""

    PENDING = "pending"
    """The Job has no pod yet."""
    SUSPENDED = "suspended"
    QUEUED = "queued"
    """A pod waits for a node."""
    STARTING = "starting"
    """On a node: image, volumes, init containers."""
    RUNNING = "running"
    RETRYING = "retrying"
    """An attempt ended; the Job starts the next one after its back-off."""
    FINISHING = "finishing"
    """The end is decided; pods are being ended or the Job's condition is on its way."""
    STOPPING = "stopping"
    """The Job is being deleted."""


class OutcomeKind(StrEnum):
    """How a training ended. Stable names: they travel in trigger events."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the decision depends on beside the observation.

    :param result_required: whether a Job that is Complete needs a valid result document to count as success.
    """

    result_required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It has not ended.

    :param detail: one line for the log: why it waits or where it runs.
    """

    phase: Phase
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """It has ended.

    :param verdict: what that means; None for a success.
    :param result: the trainer's document; None when there is none, or it is not valid.
    """

    kind: OutcomeKind
    attempts: tuple[Attempt, ...]
    verdict: Verdict | None = None
    result: Result | None = None


_RETRY_LOST: Final = Verdict(
    category=Category.DELETED,
    owner=Owner.INFRASTRUCTURE,
    action=Action.RETRY,
    summary="the Job is gone and its end was not seen: somebody deleted it, or its TTL ran out unwatched",
    remedy="see the cluster's audit log for who deleted it; a retry trains again",
)


def decide(observation: Observation, policy: Policy, now: float) -> Wait | Outcome:
    """Decide what an observation means. Total: whatever the documents held, the answer is one of the two.

    Precedence: a condition of the Job; then a Job that is gone, by what was last seen of it; then what it is doing.

    :param now: seconds since 1970.
    """
    attempts = attempts_of(observation, now)
    job = observation.job
    if job is not None:
        if job.condition("Complete") is not None:
            return _completed(observation, policy, attempts)
        failed = job.condition("Failed")
        if failed is not None:
            return _failed(failed, attempts)
    if observation.gone or job is None:
        return _gone(observation, policy, attempts)
    return _waiting(job, observation)


def _completed(observation: Observation, policy: Policy, attempts: tuple[Attempt, ...]) -> Outcome:
    verdict, result = _read_result(observation)
    if verdict is not None and policy.result_required:
        return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=verdict)
    return Outcome(kind=OutcomeKind.SUCCEEDED, attempts=attempts, result=result)


def _read_result(observation: Observation) -> tuple[Verdict | None, Result | None]:
    """Give the result of the pod that succeeded, or the verdict on its absence."""
    succeeded = [pod for pod in observation.pods if pod.phase == "Succeeded"]
    if not succeeded:
        return _result_verdict(Category.RESULT_MISSING, "the Job is Complete, but no pod that succeeded was seen"), None
    problems = []
    for pod in succeeded:
        message = pod.training.message if pod.training else ""
        try:
            result = parse_result(message)
        except ContractError as exc:
            category = Category.RESULT_INVALID if message.strip() else Category.RESULT_MISSING
            problems.append(_result_verdict(category, f"pod {pod.name}: {exc}"))
            continue
        if result.status is not ResultStatus.TRAINED:
            said = f"pod {pod.name} exited with 0, but its result says {result.status}: {result.error}"
            problems.append(_result_verdict(Category.RESULT_INVALID, said))
            continue
        return None, result
    return problems[0], None


def _result_verdict(category: Category, summary: str) -> Verdict:
    remedy = "the training program has to write its result document (contract.render_result) before it exits with 0"
    return Verdict(category=category, owner=Owner.APPLICATION, action=Action.FAIL, summary=summary, remedy=remedy)


def _failed(condition: Condition, attempts: tuple[Attempt, ...]) -> Outcome:
    if condition.reason == "DeadlineExceeded":
        verdict = Verdict(
            category=Category.DEADLINE_EXCEEDED,
            owner=Owner.CONFIGURATION,
            action=Action.FAIL,
            summary=f"the Job's deadline (deadline_seconds) has passed: {condition.message}",
            remedy="raise deadline_seconds if the training needs longer; it counts waiting for a node and retries too",
        )
        return Outcome(kind=OutcomeKind.TIMED_OUT, attempts=attempts, verdict=verdict)
    return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=_explain(condition, attempts))


def _explain(condition: Condition, attempts: tuple[Attempt, ...]) -> Verdict:
    """Give the newest verdict that is the attempt's own, else the newest at all, else the Job's words."""
    verdicts = [attempt.verdict for attempt in reversed(attempts) if attempt.verdict is not None]
    own = [verdict for verdict in verdicts if verdict.category is not Category.DISRUPTED]
    if own or verdicts:
        return (own or verdicts)[0]
    return Verdict(
        category=Category.UNKNOWN,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary=f"the Job failed ({condition.reason or 'no reason'}): {condition.message or 'no message'}; no pod seen",
        remedy="look at the Job's events (kubectl describe job)",
    )


def _gone(observation: Observation, policy: Policy, attempts: tuple[Attempt, ...]) -> Outcome:
    """What was last seen of a Job that is gone counts: a pod that had succeeded with a valid result is a success."""
    verdict, result = _read_result(observation)
    if verdict is None:
        return Outcome(kind=OutcomeKind.SUCCEEDED, attempts=attempts, result=result)
    return Outcome(kind=OutcomeKind.LOST, attempts=attempts, verdict=_RETRY_LOST)


def _waiting(job: JobObservation, observation: Observation) -> Wait:
    if job.deleting:
        return Wait(phase=Phase.STOPPING, detail="the Job is being deleted")
    target = job.condition("FailureTarget") or job.condition("SuccessCriteriaMet")
    if target is not None:
        return Wait(phase=Phase.FINISHING, detail=target.message or target.reason or "ending")
    if job.suspended or job.condition("Suspended") is not None:
        suspended = job.condition("Suspended")
        return Wait(phase=Phase.SUSPENDED, detail=suspended.message if suspended else "suspended")
    live = [pod for pod in observation.pods if not pod.ended and not pod.gone]
    if live:
        return _waiting_on(live[-1])
    if any(pod.phase == "Succeeded" for pod in observation.pods):
        return Wait(phase=Phase.FINISHING, detail="the pod succeeded; the Job's condition is on its way")
    if observation.pods:
        last = attempts_of(observation, 0.0)[-1]
        why = last.verdict.summary if last.verdict else f"pod {last.pod} ended"
        return Wait(phase=Phase.RETRYING, detail=f"attempt {last.number} ended: {why}")
    return Wait(phase=Phase.PENDING, detail="the Job has no pod yet")


def _waiting_on(pod: PodObservation) -> Wait:
    training = pod.training
    if training is not None and training.state is ContainerState.RUNNING:
        return Wait(phase=Phase.RUNNING, detail=f"pod {pod.name} on {pod.node}")
    if training is not None and training.state is ContainerState.TERMINATED:
        return Wait(phase=Phase.FINISHING, detail=f"pod {pod.name}: {training.name} exited with {training.exit_code}")
    if not pod.node:
        scheduled = pod.condition("PodScheduled")
        why = scheduled.message if scheduled and not scheduled.holds and scheduled.message else "waiting for a node"
        return Wait(phase=Phase.QUEUED, detail=f"pod {pod.name}: {why}")
    return Wait(phase=Phase.STARTING, detail=f"pod {pod.name} on {pod.node}: {_starting(pod)}")


def _starting(pod: PodObservation) -> str:
    for container in (*pod.init_containers, *pod.containers):
        if container.state is ContainerState.RUNNING:
            return f"{container.name} runs"
        if container.state is ContainerState.WAITING and container.reason not in ("", "PodInitializing"):
            return f"{container.name}: {container.reason}{': ' + container.message if container.message else ''}"
    return "starting"
