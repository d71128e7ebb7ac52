"""The Job's podFailurePolicy: the half of the rules table that Kubernetes applies itself.

https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpu_training.core.classify import RULES
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.verdict import Action

MAX_RULES: Final = 20
_WHERE: Final = "full_job_spec.spec.podFailurePolicy.rules"
_DISRUPTION: Final = "DisruptionTarget"


def build_failure_policy(base: object = None) -> dict[str, Any]:
    """Give the policy: Ignore for disruptions first, then the rules of a base policy, then FailJob for the exit codes
    that no repetition helps. What RETRY says is what Kubernetes does anyway.

    The first rule that matches wins, so an evicted pod's 143 reaches no other; a base's own rules win over our exit
    codes, and can not undo that disruptions are ignored.

    :param base: podFailurePolicy of the base Job; None for none.
    :raises ConfigurationError: it is no policy, judges disruptions otherwise, or leaves no room for ours.
    """
    own = _base_rules(base)
    final = sorted(int(rule.exit_code) for rule in RULES if rule.exit_code is not None and rule.action is Action.FAIL)
    first = {"action": "Ignore", "onPodConditions": [{"type": _DISRUPTION, "status": "True"}]}
    last = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": final}}
    rules = [first, *(rule for rule in own if rule not in (first, last)), last]
    if len(rules) > MAX_RULES:
        raise ConfigurationError(_WHERE, len(own), f"at most {MAX_RULES - 2} rules are allowed beside the operator's")
    return {"rules": rules}


def _base_rules(base: object) -> list[Mapping[str, Any]]:
    if base is None:
        return []
    rules = base.get("rules") if isinstance(base, Mapping) else None
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigurationError(_WHERE, base, "a list of rules is expected")
    for n, rule in enumerate(rules):
        conditions = rule.get("onPodConditions") or []
        judges = any(isinstance(entry, Mapping) and entry.get("type") == _DISRUPTION for entry in conditions)
        if judges and rule.get("action") != "Ignore":
            raise ConfigurationError(
                f"{_WHERE}[{n}]",
                rule,
                f"{_DISRUPTION} is always ignored: leave the rule out",
            )
    return rules
