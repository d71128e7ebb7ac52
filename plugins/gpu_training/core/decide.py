"""One decision for trigger, operator and clean-up alike: (observation, policy, now) -> wait, or how it ended.

A Job's conditions are the truth: never a count of failed pods, never the end of a watch or of a log. Level-based: the
same observation gives the same decision, whatever came before (except that time passes), and a decision that a
training has ended is not taken back by anything that Kubernetes can report later about the same Job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gpu_training.contract import Result
from gpu_training.core.attempts import Attempt, attempts_of, total_gpu_seconds
from gpu_training.core.observation import Observation
from gpu_training.core.orders import ended_because
from gpu_training.core.phase import Wait, describe
from gpu_training.core.pods import Condition
from gpu_training.core.results import is_absence, read_result
from gpu_training.core.rules import Rule, RuleTable
from gpu_training.core.verdict import Action, Category, Owner, Verdict


class OutcomeKind(StrEnum):
    """How a training ended. Stable names: they travel in trigger events."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the decision depends on beside the observation.

    :param rules: what says what the end of an attempt means.
    :param result_required: whether a Job that is Complete needs a valid result document to count as success.
    """

    rules: RuleTable
    result_required: bool = True


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


# What happened to an attempt, not what it did: another attempt's own failure explains more.
_CIRCUMSTANCES: Final = frozenset(
    {Category.DISRUPTED, Category.ADMISSION_FAILED, Category.KILLED, Category.INTERRUPTED}
)

# "Container c for pod ns/name failed with exit code 42 matching FailJob rule at index 0"
_CODE_MESSAGE: Final = re.compile(r"failed with exit code ([0-9]{1,3}) matching FailJob rule")
# "Pod ns/name has condition ConfigIssue matching FailJob rule at index 0"
_CONDITION_MESSAGE: Final = re.compile(r"has condition ([^ ]{1,317}) matching FailJob rule")
# What compiles to FailJob, since it needs another Job or none.
_ENDS_THE_JOB: Final = frozenset({Action.FAIL, Action.RETRY_ELSEWHERE, Action.RETRY_LARGER})


def decide(observation: Observation, policy: Policy, now: float) -> Wait | Outcome:
    """Decide what an observation means. Total: whatever the documents held, the answer is one of the two.

    Precedence: a condition of the Job, with the reason for which we had it ended, if we had; then a Job that is gone,
    by what was last seen of it; then what it is doing.

    :param now: seconds since 1970.
    """
    attempts = attempts_of(observation, now, policy.rules)
    job = observation.job
    if job is not None and job.condition("Complete") is not None:
        return _completed(observation, policy, attempts)
    failed = job.condition("Failed") if job is not None else None
    ordered = ended_because(job) if job is not None else None
    if ordered is not None and (failed is not None or observation.gone):
        return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=ordered)
    if failed is not None:
        return _failed(failed, attempts, policy.rules)
    if observation.gone:
        return _gone(observation, policy, attempts)
    return describe(job, observation.pods, attempts)


def _completed(observation: Observation, policy: Policy, attempts: tuple[Attempt, ...]) -> Outcome:
    found = read_result(observation)
    if isinstance(found, Result):
        return Outcome(kind=OutcomeKind.SUCCEEDED, attempts=attempts, result=found)
    if is_absence(found) and not policy.result_required:
        return Outcome(kind=OutcomeKind.SUCCEEDED, attempts=attempts)
    return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=found)


def _failed(condition: Condition, attempts: tuple[Attempt, ...], rules: RuleTable) -> Outcome:
    if condition.reason != "DeadlineExceeded":
        return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=_explain(condition, attempts, rules))
    held = [attempt for attempt in attempts if attempt.gpu_seconds > 0]
    spent = f"{len(held)} attempts used {total_gpu_seconds(held):g} GPU-seconds" if held else "no attempt got a node"
    verdict = Verdict(
        category=Category.DEADLINE_EXCEEDED,
        owner=Owner.CONFIGURATION,
        action=Action.FAIL,
        summary=f"the Job's deadline (deadline_seconds) has passed: {condition.message or 'no message'}; {spent}",
        remedy="raise deadline_seconds if the training needs longer, and budget.wall_seconds, which all Jobs of the "
        "work share; both count starting, running and the pauses between attempts, and not the queue",
    )
    return Outcome(kind=OutcomeKind.TIMED_OUT, attempts=attempts, verdict=verdict)


def _explain(condition: Condition, attempts: tuple[Attempt, ...], rules: RuleTable) -> Verdict:
    """Give what explains a Failed Job: the newest failure that an attempt is itself the cause of, else the newest whose
    end was seen, else the Job's own words."""
    verdicts = [attempt.verdict for attempt in reversed(attempts) if attempt.verdict is not None]
    known = [verdict for verdict in verdicts if verdict.category is not Category.UNKNOWN]
    causes = [verdict for verdict in known if verdict.category not in _CIRCUMSTANCES]
    rule = _named_rule(condition.message, rules)
    told = _from_words(condition, rule)
    if condition.reason != "PodFailurePolicy":
        return next(iter(causes or known or verdicts), told)
    if rule is not None and rule.action in _ENDS_THE_JOB:
        # Of a gang, the newest is not the cause: the others were ended because of it.
        return next((v for v in known if (v.category, v.action) == (rule.category, rule.action)), told)
    # A rule of a base document that the table does not know: it has said that no repetition helps.
    ending = [verdict for verdict in known if verdict.action in _ENDS_THE_JOB]
    said = [told] if rule is not None else []
    return replace((ending or said or causes or known or [told])[0], action=Action.FAIL)


def _named_rule(message: str, rules: RuleTable) -> Rule | None:
    """Give the rule of the table that made Kubernetes fail the Job, by what its message names."""
    if match := _CODE_MESSAGE.search(message):
        return rules.for_exit_code(int(match[1]))
    if match := _CONDITION_MESSAGE.search(message):
        return rules.for_condition(match[1])
    return None


def _from_words(condition: Condition, rule: Rule | None) -> Verdict:
    """Give the verdict when no pod was seen to end: what the Job's message tells."""
    said = f"{condition.reason or 'no reason'}: {condition.message or 'no message'}"
    return Verdict(
        category=rule.category if rule else Category.UNKNOWN,
        owner=rule.owner if rule else Owner.INFRASTRUCTURE,
        action=rule.action if rule else Action.RETRY,
        summary=f"the Job failed ({said}); no pod was seen to end",
        remedy=rule.remedy if rule else "look at the Job's events (kubectl describe job)",
    )


def _gone(observation: Observation, policy: Policy, attempts: tuple[Attempt, ...]) -> Outcome:
    """Decide by what was last seen of a Job that is gone: an end that Kubernetes would have reached counts."""
    job = observation.job
    target = job.condition("FailureTarget") if job is not None else None
    if target is not None:
        return _failed(target, attempts, policy.rules)
    if _all_succeeded(observation):
        return _completed(observation, policy, attempts)
    final = next((a.verdict for a in attempts if a.verdict is not None and a.verdict.action is Action.FAIL), None)
    if final is not None:
        return Outcome(kind=OutcomeKind.FAILED, attempts=attempts, verdict=final)
    last = next((a.verdict.summary for a in reversed(attempts) if a.verdict is not None), "no attempt was seen")
    verdict = Verdict(
        category=Category.DELETED,
        owner=Owner.INFRASTRUCTURE,
        action=Action.RETRY,
        summary=f"the Job is gone and its end was not seen: somebody deleted it, or its TTL ran out unwatched; {last}",
        remedy="see the cluster's audit log for who deleted it; a retry trains again",
    )
    return Outcome(kind=OutcomeKind.LOST, attempts=attempts, verdict=verdict)


def _all_succeeded(observation: Observation) -> bool:
    job = observation.job
    if job is not None and job.condition("SuccessCriteriaMet") is not None:
        return True
    needed = 1 if job is None or job.completions is None else job.completions
    if job is not None and job.completions is None and (job.parallelism or 1) > 1:
        return False  # a work queue: only the Job controller knows when it is empty
    succeeded = {pod.uid if pod.index is None else pod.index for pod in observation.pods if pod.phase == "Succeeded"}
    return len(succeeded) >= max(1, needed)
