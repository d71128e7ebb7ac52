"""What an ended attempt means, by the table of failure rules: the first one that holds.

What the cluster can match comes first (disruption, conditions of the pod, exit codes), since the cluster acts on it
before anybody reads a reason or a log; then reasons and what the log says, in the table's order. So an evicted pod's
143 is not the program's, and a code of the contract comes before OOMKilled, with which a child's out-of-memory marks a
container that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_training.contract import ContractError, ResultStatus, parse_result
from gpu_training.core.pods import ContainerObservation, PodObservation
from gpu_training.core.program_words import last_line, words_of
from gpu_training.core.rules import DISRUPTION, Rule, RuleTable
from gpu_training.core.text_pattern import fits
from gpu_training.core.verdict import Action, Category, Owner, Verdict

# 128 + n of signals that others send; a crash of the program's own (SIGSEGV, SIGABRT, …) is not among them.
_KILLED_BY: Final = {129: "SIGHUP", 130: "SIGINT", 137: "SIGKILL", 143: "SIGTERM"}
_CRASHED_BY: Final = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}

# What no rule of the table knows. All of it is repeated, as Kubernetes does by itself.
KILLED: Final = Rule(
    name="killed",
    category=Category.KILLED,
    owner=Owner.INFRASTRUCTURE,
    action=Action.RETRY,
    remedy="see who killed the container (kubectl describe pod), and the log's last lines",
)
APPLICATION_ERROR: Final = Rule(
    name="application-error",
    category=Category.APPLICATION_ERROR,
    owner=Owner.APPLICATION,
    action=Action.RETRY,
    remedy="read the log of the failed attempt: the program ended by itself",
)
UNKNOWN: Final = Rule(
    name="unknown",
    category=Category.UNKNOWN,
    owner=Owner.INFRASTRUCTURE,
    action=Action.RETRY,
    remedy="look at the Job and its pods (kubectl describe job): nothing was recorded that explains it",
)


def classify_pod(pod: PodObservation, rules: RuleTable, *, finding: str | None = None) -> Verdict | None:
    """Give the verdict on an attempt that did not succeed; None while it runs, waits, or has succeeded.

    A live pod that is being taken away is judged already. An attempt that ended in a way that no rule knows is UNKNOWN,
    which retries: it is never taken for success.

    :param finding: name of the rule that the pod's log matches; None, or a name that is not in the table, for none.
    """
    if _has_succeeded(pod) or (not pod.ended and not pod.gone and pod.disruption is None):
        return None
    rule, container = next(_holding(pod, rules, finding))
    return Verdict(
        category=rule.category,
        owner=rule.owner,
        action=rule.action,
        summary=_summary(pod, container) + (f"; its log says so: {rule.name}" if _told_by_log(rule, finding) else ""),
        remedy=rule.remedy,
    )


def _has_succeeded(pod: PodObservation) -> bool:
    """Whether a pod did its work: one that ends with 0 because it is taken away, and leaves no result, did not."""
    if pod.phase != "Succeeded" or pod.disruption is None:
        return pod.phase == "Succeeded"
    try:
        return parse_result(pod.training.message if pod.training is not None else "").status is ResultStatus.TRAINED
    except ContractError:
        return False


def _holding(
    pod: PodObservation, rules: RuleTable, finding: str | None
) -> Iterator[tuple[Rule, ContainerObservation | None]]:
    """Give the rules that hold, the first that counts first, each with the container that explains it."""
    for rule in rules:
        if any(_has_condition(pod, type_) for type_ in rule.pod_conditions):
            yield rule, pod.failure
        for container in _failed_containers(pod):
            if container.exit_code in rule.exit_codes:
                yield rule, container
    for rule in rules:
        if _has_reason(pod, rule) or _told_by_log(rule, finding):
            yield rule, pod.failure
    code = pod.failure.exit_code if pod.failure is not None else None
    yield UNKNOWN if code is None else KILLED if code in _KILLED_BY else APPLICATION_ERROR, pod.failure


def _has_condition(pod: PodObservation, type_: str) -> bool:
    if type_ == DISRUPTION:
        return pod.disruption is not None
    condition = pod.condition(type_)
    return condition is not None and condition.holds


def _has_reason(pod: PodObservation, rule: Rule) -> bool:
    # Empty containerStatuses: the kubelet turned the pod away before it had containers.
    admitted = pod.phase != "Failed" or bool(pod.containers)
    if pod.reason and rule.holds_for_pod(pod.reason, admitted=admitted):
        return True
    reason = pod.failure.reason if pod.failure is not None else ""
    return bool(reason) and any(fits(pattern, reason) for pattern in rule.container_reasons)


def _told_by_log(rule: Rule, finding: str | None) -> bool:
    return rule.name == finding and bool(rule.log_patterns)


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
        words = words_of(parse_result(container.message).error or "")
    except ContractError:
        words = last_line(container.message)
    return f": {words}" if words else ""
