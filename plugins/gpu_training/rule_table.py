"""The failure rules that hold for a training: the built-in ones of this package, and a team's own before them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import yaml

from gpu_training.core.failure_policy import build_failure_policy
from gpu_training.core.rule_documents import join_rules, parse_rules
from gpu_training.core.rules import Rule, RuleTable

BUILT_IN: Final = Path(__file__).with_name("failure_rules.yaml")


@cache
def built_in_rules() -> RuleTable:
    """Give the rules of the package's failure_rules.yaml, read once a process."""
    return parse_rules(yaml.safe_load(BUILT_IN.read_text(encoding="utf-8")), BUILT_IN.name)


def rules_for(team: Sequence[Rule] = (), where: str = "training.failure_rules") -> RuleTable:
    """Give the table for a training whose spec has these rules.

    :param team: `failure_rules` of the spec.
    :param where: path of them, for messages.
    :raises ConfigurationError: a rule clashes with a built-in one, or the rules compile to more than a podFailurePolicy
        takes.
    """
    if not team:
        return built_in_rules()
    table = join_rules(built_in_rules(), team, where)
    build_failure_policy(None, table)
    return table
