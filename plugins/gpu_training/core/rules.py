"""The table of failure rules: what an attempt's end is matched by, and what then follows.

Two layers use one table. What the cluster can match (exit codes, conditions of the pod) compiles to the Job's
podFailurePolicy (:mod:`gpu_training.core.failure_policy`); the whole table classifies what was observed
(:mod:`gpu_training.core.classify`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from gpu_training.core.text_pattern import fits
from gpu_training.core.verdict import Action, Category, Owner

DISRUPTION: Final = "DisruptionTarget"
"""The condition of a pod that Kubernetes takes away: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row. It holds where any one of its matchers does.

    :param name: unique in its table.
    :param exit_codes: of any container, from 1 to 255. The cluster matches them, too.
    :param pod_conditions: types of conditions that are true. The cluster matches them, too; DisruptionTarget counts
        only if it was set before the container ended.
    :param container_reasons: patterns of the reason why the container ended that explains the pod's failure.
    :param pod_reasons: patterns of the failed pod's own reason.
    :param admission_reasons: the same of a pod that a node turned away before it had containers.
    :param log_patterns: patterns of what a line of the training container's log contains.
    :param overrides: names of later rows that this one is meant to come before.
    """

    name: str
    category: Category
    owner: Owner
    action: Action
    remedy: str
    exit_codes: tuple[int, ...] = ()
    pod_conditions: tuple[str, ...] = ()
    container_reasons: tuple[str, ...] = ()
    pod_reasons: tuple[str, ...] = ()
    admission_reasons: tuple[str, ...] = ()
    log_patterns: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def to_document(self) -> dict[str, Any]:
        """Give the row as plain data, as it stands in YAML."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: _plain(value) for name, value in values if value != ()}

    def holds_for_pod(self, reason: str, *, admitted: bool) -> bool:
        """Whether the row holds for the reason of a failed pod.

        :param admitted: whether the pod ever had containers.
        """
        patterns = self.pod_reasons if admitted else (*self.pod_reasons, *self.admission_reasons)
        return any(fits(pattern, reason) for pattern in patterns)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """The rows, the first of which is about disruptions. Made by :mod:`gpu_training.core.rule_documents` only."""

    rules: tuple[Rule, ...]

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def named(self, name: str) -> Rule | None:
        """Give the row of a name, if there is one."""
        return next((rule for rule in self.rules if rule.name == name), None)

    def for_exit_code(self, exit_code: int) -> Rule | None:
        """Give the first row for an exit code, if there is one."""
        return next((rule for rule in self.rules if exit_code in rule.exit_codes), None)

    def for_condition(self, type_: str) -> Rule | None:
        """Give the first row for a condition of the pod, if there is one."""
        return next((rule for rule in self.rules if type_ in rule.pod_conditions), None)

    def to_document(self) -> list[dict[str, Any]]:
        """Give the table as plain data, which :func:`~gpu_training.core.rule_documents.parse_rules` reads again."""
        return [rule.to_document() for rule in self.rules]


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return value.value if isinstance(value, StrEnum) else value
