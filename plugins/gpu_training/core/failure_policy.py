"""The Job's podFailurePolicy: the half of the rules table that Kubernetes applies itself.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.rules import DISRUPTION, RuleTable
from gpu_training.core.verdict import Action

MAX_POLICY_RULES: Final = 20
_WHERE: Final = "full_job_spec.spec.podFailurePolicy.rules"

CLUSTER_ACTION: Final[Mapping[Action, str]] = {
    Action.FAIL: "FailJob",
    # A Job's pod template can not change: another node or more memory needs another Job.
    Action.RETRY_ELSEWHERE: "FailJob",
    Action.RETRY_LARGER: "FailJob",
    Action.WAIT: "Ignore",
    Action.RETRY: "Count",
}


@dataclass(slots=True)
class _Run:
    """Rules that follow one another and have one action: their order among themselves decides nothing."""

    action: str
    conditions: set[str] = field(default_factory=set)
    codes: set[int] = field(default_factory=set)

    def to_rules(self) -> list[dict[str, Any]]:
        rules: list[dict[str, Any]] = []
        if self.conditions:
            patterns = [{"type": type_, "status": "True"} for type_ in sorted(self.conditions)]
            rules.append({"action": self.action, "onPodConditions": patterns})
        if self.codes:
            rules.append({"action": self.action, "onExitCodes": {"operator": "In", "values": sorted(self.codes)}})
        return rules


def build_failure_policy(base: object, rules: RuleTable) -> dict[str, Any]:
    """Give the policy: Ignore for disruptions first, then the rules of a base policy, then the table's that the cluster
    can match, in the table's order.

    The first rule that matches wins, so an evicted pod's 143 reaches no other; a base's own rules win over the table,
    and can not undo that disruptions are ignored. Count at the end is left out: it is what Kubernetes does anyway.

    :param base: podFailurePolicy of the base Job; None for none.
    :raises ConfigurationError: it is no policy, judges disruptions otherwise, or leaves no room for the table.
    """
    own = _base_rules(base)
    first, *last = _table_rules(rules)
    both = [first, *(rule for rule in own if rule not in (first, *last)), *last]
    if len(both) > MAX_POLICY_RULES:
        room = MAX_POLICY_RULES - len(last) - 1
        if room < 0:
            raise ConfigurationError(
                "training.failure_rules",
                len(last) + 1,
                f"the rules compile to more than the {MAX_POLICY_RULES} that a podFailurePolicy takes: put rules with "
                "exit codes that have one action next to one another",
            )
        raise ConfigurationError(_WHERE, len(own), f"at most {room} rules are allowed beside the operator's")
    return {"rules": both}


def _table_rules(rules: RuleTable) -> list[dict[str, Any]]:
    runs: list[_Run] = []
    seen: set[str | int] = {DISRUPTION}
    for rule in rules:
        # What an earlier rule overrides has been judged by it.
        conditions, codes = set(rule.pod_conditions) - seen, set(rule.exit_codes) - seen
        if not conditions and not codes:
            continue
        action = CLUSTER_ACTION[rule.action]
        if not runs or runs[-1].action != action:
            runs.append(_Run(action))
        runs[-1].conditions |= conditions
        runs[-1].codes |= codes
        seen |= conditions | codes
    while runs and runs[-1].action == CLUSTER_ACTION[Action.RETRY]:
        runs.pop()
    ignore = {"action": "Ignore", "onPodConditions": [{"type": DISRUPTION, "status": "True"}]}
    return [ignore, *(compiled for run in runs for compiled in run.to_rules())]


def _base_rules(base: object) -> list[Mapping[str, Any]]:
    if base is None:
        return []
    rules = base.get("rules") if isinstance(base, Mapping) else None
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigurationError(_WHERE, base, "a list of rules is expected")
    for n, rule in enumerate(rules):
        conditions = rule.get("onPodConditions") or []
        judges = any(isinstance(entry, Mapping) and entry.get("type") == DISRUPTION for entry in conditions)
        if judges and rule.get("action") != "Ignore":
            raise ConfigurationError(
                f"{_WHERE}[{n}]",
                rule,
                f"{DISRUPTION} is always ignored: leave the rule out",
            )
    return rules
