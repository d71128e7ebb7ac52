"""Rules in YAML -> the table of failure rules, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields, nearest
from gpu_training.core.rule_row import parse_rule
from gpu_training.core.rules import DISRUPTION, Rule, RuleTable
from gpu_training.core.shadowing import shadows_among, shadows_between
from gpu_training.core.verdict import Action

MAX_RULES: Final = 100
MAX_PATTERNS: Final = 200
"""Most in one table, of log lines and of reasons: those of log lines are looked for in every line."""


def parse_rules(document: object, where: str) -> RuleTable:
    """Give the whole table in a document, which is a list of rules.

    :param where: path of the document, for messages.
    :raises ConfigurationError: the first fault found: of a rule by itself, of two that have one name or of which one
        shadows the other, or because the first is not that disruptions are waited for.
    """
    rules = _rows(document, where)
    first = rules[0] if rules else None
    if first is None or first.pod_conditions != (DISRUPTION,) or first.action is not Action.WAIT:
        raise ConfigurationError(
            f"{where}[0]", None if first is None else first.name, f"the first rule has to wait for {DISRUPTION} alone"
        )
    _check_disruption(rules[1:], where, offset=1)
    _check_together(rules, where)
    _check_overrides(rules, {rule.name for rule in rules}, where)
    return RuleTable(rules=rules)


def parse_team_rules(document: object, where: str) -> tuple[Rule, ...]:
    """Give a team's own rules in a document; :func:`join_rules` says what they are beside the built-in ones.

    :raises ConfigurationError: the first fault found: as :func:`parse_rules`, but disruptions are none of theirs.
    """
    rules = _rows(document, where)
    _check_disruption(rules, where)
    _check_together(rules, where)
    return rules


def join_rules(built_in: RuleTable, team: Sequence[Rule], where: str) -> RuleTable:
    """Give the table in which a team's rules come before the built-in ones, but for the one about disruptions.

    :param where: path of the team's rules, for messages.
    :raises ConfigurationError: a rule has a built-in one's name, takes what a built-in one is about without naming it
        in `overrides`, or names one there that is not built in; or there are too many.
    """
    first, *rest = built_in.rules
    for n, rule in enumerate(team):
        if built_in.named(rule.name) is not None:
            raise ConfigurationError(
                f"{where}[{n}].name",
                rule.name,
                "is a built-in rule's: choose another name, and write that one in `overrides` where this rule takes "
                "its place",
            )
        for built in rest:
            _check_knowing(rule, built, f"{where}[{n}]")
    _check_overrides(team, {rule.name for rule in rest}, where)
    joined = (first, *team, *rest)
    _check_size(joined, where)
    return RuleTable(rules=joined)


def _rows(document: object, where: str) -> tuple[Rule, ...]:
    if not isinstance(document, (list, tuple)):
        raise ConfigurationError(where, document, "a list of rules is expected")
    if len(document) > MAX_RULES:
        raise ConfigurationError(where, len(document), f"at most {MAX_RULES} rules are allowed")
    rules = tuple(parse_rule(Fields(body, f"{where}[{n}]")) for n, body in enumerate(document))
    _check_size(rules, where)
    return rules


def _check_size(rules: Sequence[Rule], where: str) -> None:
    if len(rules) > MAX_RULES:
        raise ConfigurationError(where, len(rules), f"at most {MAX_RULES} rules are allowed")
    patterns = sum(
        len(rule.container_reasons) + len(rule.pod_reasons) + len(rule.admission_reasons) + len(rule.log_patterns)
        for rule in rules
    )
    if patterns > MAX_PATTERNS:
        raise ConfigurationError(where, patterns, f"at most {MAX_PATTERNS} reasons and log patterns are allowed in all")


def _check_disruption(rules: Sequence[Rule], where: str, offset: int = 0) -> None:
    for n, rule in enumerate(rules, start=offset):
        if DISRUPTION in rule.pod_conditions:
            raise ConfigurationError(
                f"{where}[{n}].pod_conditions",
                DISRUPTION,
                f"is always waited for, by a rule that comes first (action={rule.action} here): leave it out",
            )


def _check_together(rules: Sequence[Rule], where: str) -> None:
    seen: set[str] = set()
    for n, rule in enumerate(rules):
        if rule.name in seen:
            raise ConfigurationError(f"{where}[{n}].name", rule.name, "is an earlier rule's: choose another")
        seen.add(rule.name)
    shadow = next(shadows_among(rules), None)
    if shadow is not None:
        n = rules.index(shadow.later)
        said = f"is taken by the rule {shadow.earlier.name!r}, which comes before: leave it out of one of them"
        raise ConfigurationError(f"{where}[{n}].{shadow.field}", shadow.value, said)


def _check_knowing(rule: Rule, built: Rule, where: str) -> None:
    shadow = next(shadows_between(rule, built), None)
    if shadow is not None and built.name not in rule.overrides:
        raise ConfigurationError(
            f"{where}.{shadow.earlier_field}",
            shadow.value,
            f"is what the built-in rule {built.name!r} is about: write `overrides: [{built.name}]` in this rule if it "
            "is meant to come before it, else leave the value out",
        )


def _check_overrides(rules: Sequence[Rule], names: set[str], where: str) -> None:
    for n, rule in enumerate(rules):
        for name in rule.overrides:
            if name not in names:
                known = ", ".join(sorted(names)[:20])
                raise ConfigurationError(
                    f"{where}[{n}].overrides", name, f"no such rule{nearest(name, names)}; known are: {known}"
                )
