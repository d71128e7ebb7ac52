"""What an ended or stuck attempt means: one table of rules, read from the top, the first match wins.

Two layers use it: rules about exit codes compile to the Job's podFailurePolicy (:mod:`gpu_training.core.manifest`), and
all of them classify what was observed. Disruption comes first, since an evicted pod's 143 is not the program's; the exit
code comes before the reason, because a child's out-of-memory marks a container OOMKilled that ends with 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.contract import ExitCode
from gpu_training.core.observation import ContainerObservation, ContainerState, PodObservation


class Owner(StrEnum):
    """Who has to act."""

    APPLICATION = "application"
    INFRASTRUCTURE = "infrastructure"
    CONFIGURATION = "configuration"


class Action(StrEnum):
    """What a rule asks for."""

    FAIL = "fail"
    """No repetition helps: the Job fails at once, and Airflow does not retry."""
    RETRY = "retry"
    """Repeating may help: it counts against the Job's backoff limit, then against Airflow's retries."""
    WAIT = "wait"
    """Not the program's fault: the replacement pod does not count."""


class Category(StrEnum):
    """Stable names: they reach XCom, labels and alerts, and are never renamed."""

    DISRUPTED = "disrupted"
    BAD_CONFIGURATION = "bad_configuration"
    BAD_DATA = "bad_data"
    CUDA_OUT_OF_MEMORY = "cuda_out_of_memory"
    NAN_LOSS = "nan_loss"
    COMMUNICATION_TIMEOUT = "communication_timeout"
    INTERRUPTED = "interrupted"
    OUT_OF_MEMORY = "out_of_memory"
    START_ERROR = "start_error"
    ADMISSION_FAILED = "admission_failed"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    KILLED = "killed"
    APPLICATION_ERROR = "application_error"
    RESULT_MISSING = "result_missing"
    RESULT_INVALID = "result_invalid"
    DELETED = "deleted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What happened, whose it is, and what to do.

    :param category: stable, for machines.
    :param summary: one sentence with the facts, for the task log.
    :param remedy: what the owner does next.
    :param action: whether repeating helps.
    """

    category: Category
    owner: Owner
    summary: str
    remedy: str
    action: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row.

    :param exit_code: the row holds for this exit code of any container, and compiles to podFailurePolicy.
    :param matches: the row holds where this is true; for what Kubernetes can not match.
    """

    category: Category
    owner: Owner
    action: Action
    remedy: str
    exit_code: int | None = None
    matches: Callable[[PodObservation, ContainerObservation | None], bool] | None = None


def _oom_killed(pod: PodObservation, container: ContainerObservation | None) -> bool:
    return container is not None and container.reason == "OOMKilled" and container.exit_code != 0


def _admission_failed(pod: PodObservation, container: ContainerObservation | None) -> bool:
    # Empty containerStatuses: the kubelet turned the pod away before it had containers (SEMANTICS, section 2).
    return pod.phase == "Failed" and not pod.containers and bool(pod.reason)


def _start_error(pod: PodObservation, container: ContainerObservation | None) -> bool:
    return container is not None and container.reason in ("StartError", "ContainerCannotRun")


def _pod_deadline(pod: PodObservation, container: ContainerObservation | None) -> bool:
    return pod.reason == "DeadlineExceeded"


def _killed(pod: PodObservation, container: ContainerObservation | None) -> bool:
    return container is not None and container.exit_code is not None and container.exit_code > 128


def _failed(pod: PodObservation, container: ContainerObservation | None) -> bool:
    return container is not None and container.exit_code not in (None, 0)


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        category=Category.DISRUPTED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.WAIT,
        matches=lambda pod, container: pod.disruption is not None,
        remedy="nothing: Kubernetes replaces the pod without counting it; look at the node if it goes on",
    ),
    Rule(
        category=Category.BAD_CONFIGURATION,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        exit_code=ExitCode.BAD_CONFIGURATION,
        remedy="correct the arguments in the model's YAML or in the trigger form",
    ),
    Rule(
        category=Category.BAD_DATA,
        owner=Owner.APPLICATION,
        action=Action.FAIL,
        exit_code=ExitCode.BAD_DATA,
        remedy="check the data version: its files are missing, changed, or not what the program can read",
    ),
    Rule(
        category=Category.CUDA_OUT_OF_MEMORY,
        owner=Owner.APPLICATION,
        action=Action.FAIL,
        exit_code=ExitCode.CUDA_OUT_OF_MEMORY,
        remedy="use a smaller batch or model, or a GPU with more memory: the same pod would fail again",
    ),
    Rule(
        category=Category.NAN_LOSS,
        owner=Owner.APPLICATION,
        action=Action.FAIL,
        exit_code=ExitCode.NAN_LOSS,
        remedy="lower the learning rate or check the data: the same pod would diverge again",
    ),
    Rule(
        category=Category.COMMUNICATION_TIMEOUT,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        exit_code=ExitCode.COMMUNICATION_TIMEOUT,
        remedy="check the network between the ranks if it happens again",
    ),
    Rule(
        category=Category.INTERRUPTED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        exit_code=ExitCode.INTERRUPTED,
        remedy="nothing: the next attempt resumes from the checkpoint that was taken",
    ),
    Rule(
        category=Category.DEADLINE_EXCEEDED,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        matches=_pod_deadline,
        remedy="raise deadline_seconds if the training needs longer",
    ),
    Rule(
        category=Category.OUT_OF_MEMORY,
        owner=Owner.CONFIGURATION,
        action=Action.RETRY,
        matches=_oom_killed,
        remedy="raise resources.limits.memory (shared memory counts against it), or read less data at once",
    ),
    Rule(
        category=Category.START_ERROR,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        matches=_start_error,
        remedy="check entrypoint against what the image holds",
    ),
    Rule(
        category=Category.ADMISSION_FAILED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        matches=_admission_failed,
        remedy="check the node: it turned the pod away after the scheduler had chosen it",
    ),
    Rule(
        category=Category.KILLED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        matches=_killed,
        remedy="see who killed the container (kubectl describe pod), and the log's last lines",
    ),
    Rule(
        category=Category.APPLICATION_ERROR,
        owner=Owner.APPLICATION,
        action=Action.RETRY,
        matches=_failed,
        remedy="read the log of the failed attempt: the program ended by itself",
    ),
)

_UNKNOWN_REMEDY: Final = "look at the Job and its pods (kubectl describe job): nothing was recorded that explains it"


def classify_pod(pod: PodObservation) -> Verdict | None:
    """Give the verdict on an attempt that did not succeed; None while it runs, waits, or has succeeded.

    An attempt that ended in a way that no rule knows is UNKNOWN, which retries: it is never taken for success.
    """
    if pod.phase == "Succeeded" or (not pod.ended and not pod.gone and pod.disruption is None):
        return None
    container = _failed_container(pod)
    for rule in RULES:
        if _holds(rule, pod, container):
            return Verdict(
                category=rule.category,
                owner=rule.owner,
                action=rule.action,
                summary=_summary(pod, container),
                remedy=rule.remedy,
            )
    return Verdict(
        category=Category.UNKNOWN,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary=_summary(pod, container),
        remedy=_UNKNOWN_REMEDY,
    )


def _holds(rule: Rule, pod: PodObservation, container: ContainerObservation | None) -> bool:
    if rule.exit_code is not None:
        return container is not None and container.exit_code == rule.exit_code
    return rule.matches is not None and rule.matches(pod, container)


def _failed_container(pod: PodObservation) -> ContainerObservation | None:
    """Give the container that explains the failure: an init container first, then the training's, then any other."""
    training = [pod.training] if pod.training else []
    for container in [*pod.init_containers, *training, *pod.containers]:
        if container.state is ContainerState.TERMINATED and container.exit_code != 0:
            return container
    return None


def _summary(pod: PodObservation, container: ContainerObservation | None) -> str:
    where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
    if pod.disruption is not None:
        return f"{where} was taken away: {pod.disruption.reason} ({pod.disruption.message})"
    if container is None:
        said = pod.message or ("it is gone and its end was not seen" if pod.gone else "no container reported an end")
        return f"{where} failed{f' ({pod.reason})' if pod.reason else ''}: {said}"
    reason = f", {container.reason}" if container.reason not in ("", "Error") else ""
    if pod.reason:
        reason += f", {pod.reason}"
    return (
        f"{where}: container {container.name} exited with {container.exit_code}{reason}{_signal(container.exit_code)}"
    )


def _signal(exit_code: int | None) -> str:
    names = {137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM", 134: "SIGABRT"}
    return f" ({names[exit_code]})" if exit_code in names else ""


def policy_rules() -> list[dict[str, object]]:
    """Give the podFailurePolicy rules that the table compiles to: Ignore for disruptions first, then FailJob for the
    exit codes that no repetition helps. What RETRY says is what Kubernetes does anyway.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
    """
    final = sorted(rule.exit_code for rule in RULES if rule.exit_code is not None and rule.action is Action.FAIL)
    return [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [int(code) for code in final]}},
    ]
