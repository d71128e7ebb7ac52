"""What an ended attempt means: one table of rules, read from the top, the first match wins.

Two layers use it: rules about exit codes compile to the Job's podFailurePolicy
(:mod:`gpu_training.core.failure_policy`), and all of them classify what was observed. Disruption comes first, since an
evicted pod's 143 is not the program's; the exit code comes before the reason, because a child's out-of-memory marks a
container OOMKilled that ends with 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gpu_training.contract import ContractError, ExitCode, parse_result
from gpu_training.core.pods import ContainerObservation, PodObservation
from gpu_training.core.verdict import Action, Category, Owner, Verdict

_LONGEST_WORDS: Final = 400
"""Most characters of a program's own words in a summary."""

# 128 + n of signals that others send; a crash of the program's own (SIGSEGV, SIGABRT, …) is not among them.
_KILLED_BY: Final = {129: "SIGHUP", 130: "SIGINT", 137: "SIGKILL", 143: "SIGTERM"}
_CRASHED_BY: Final = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row. It has one of the last two.

    :param exit_code: the row holds for this exit code of any container, as a rule of a podFailurePolicy does.
    :param matches: the row holds where this is true; for what Kubernetes can not match.
    """

    category: Category
    owner: Owner
    action: Action
    remedy: str
    exit_code: int | None = None
    matches: Callable[[PodObservation], bool] | None = None


def _admission_failed(pod: PodObservation) -> bool:
    # Empty containerStatuses: the kubelet turned the pod away before it had containers.
    return pod.phase == "Failed" and not pod.containers and bool(pod.reason)


def _oom_killed(pod: PodObservation) -> bool:
    return pod.failure is not None and pod.failure.reason == "OOMKilled"


def _start_error(pod: PodObservation) -> bool:
    return pod.failure is not None and pod.failure.reason in ("StartError", "ContainerCannotRun")


def _killed(pod: PodObservation) -> bool:
    return pod.failure is not None and pod.failure.exit_code in _KILLED_BY


RULES: Final[tuple[Rule, ...]] = (
    Rule(
        category=Category.DISRUPTED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.WAIT,
        matches=lambda pod: pod.disruption is not None,
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
        matches=lambda pod: pod.reason == "DeadlineExceeded",
        remedy="raise the pod's own activeDeadlineSeconds, or leave it out: deadline_seconds bounds the Job",
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
        remedy="check the node: it turned the pod away, or put it out, before it had containers",
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
        matches=lambda pod: pod.failure is not None and pod.failure.exit_code is not None,
        remedy="read the log of the failed attempt: the program ended by itself",
    ),
)

_UNKNOWN_REMEDY: Final = "look at the Job and its pods (kubectl describe job): nothing was recorded that explains it"


def classify_pod(pod: PodObservation) -> Verdict | None:
    """Give the verdict on an attempt that did not succeed; None while it runs, waits, or has succeeded.

    A live pod that is being taken away is judged already. An attempt that ended in a way that no rule knows is UNKNOWN,
    which retries: it is never taken for success.
    """
    if pod.phase == "Succeeded" or (not pod.ended and not pod.gone and pod.disruption is None):
        return None
    for rule in RULES:
        if rule.exit_code is not None:
            container = next((c for c in _failed_containers(pod) if c.exit_code == rule.exit_code), None)
            holds = container is not None
        else:
            container = pod.failure
            holds = rule.matches is not None and rule.matches(pod)
        if holds:
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
        summary=_summary(pod, pod.failure),
        remedy=_UNKNOWN_REMEDY,
    )


def rule_for_exit_code(exit_code: int) -> Rule | None:
    """Give the row for an exit code, if there is one."""
    return next((rule for rule in RULES if rule.exit_code == exit_code), None)


def _failed_containers(pod: PodObservation) -> list[ContainerObservation]:
    return [container for container in (*pod.init_containers, *pod.containers) if container.failed]


def _summary(pod: PodObservation, container: ContainerObservation | None) -> str:
    where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
    if pod.disruption is not None:
        return f"{where} was taken away: {pod.disruption.reason} ({pod.disruption.message})"
    if container is None:
        said = pod.message or ("it is gone and its end was not seen" if pod.gone else "no container reported an end")
        return f"{where} failed{f' ({pod.reason})' if pod.reason else ''}: {said}"
    return f"{where}: container {container.name} {_ending(container, pod.reason)}{_words(container)}"


def _ending(container: ContainerObservation, pod_reason: str) -> str:
    code = container.exit_code
    if code is None:
        return "ended without an exit code"
    details = [
        detail
        for detail in (
            _KILLED_BY.get(code) or _CRASHED_BY.get(code),
            container.reason if container.reason not in ("", "Error") else None,
            pod_reason or None,
        )
        if detail
    ]
    return f"exited with {code}" + (f" ({', '.join(details)})" if details else "")


def _words(container: ContainerObservation) -> str:
    """Give what the program itself said about its end: its result's error, or the last line of any other message."""
    try:
        words = parse_result(container.message).error or ""
    except ContractError:
        words = next((line for line in reversed(container.message.splitlines()) if line.strip()), "")
    words = " ".join(words.split())[:_LONGEST_WORDS]
    return ": " + "".join(c if c.isprintable() else "�" for c in words) if words else ""
