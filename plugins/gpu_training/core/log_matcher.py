"""What the pods' logs say about their ends: the log patterns of the rules, looked for line by line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpu_training.contract import PROGRESS_PREFIX
from gpu_training.core.rules import RuleTable
from gpu_training.core.text_pattern import occurs

LONGEST_LINE: Final = 4096
"""Characters of a line that are looked at, from its beginning."""
MOST_PODS: Final = 1000
"""Pods of which a finding is kept; beyond that the oldest is forgotten."""


class LogMatcher:
    """Keeps, of each pod, the first rule of the table that any line of its log has matched so far.

    Time and memory are bounded, whatever a program prints: a line costs at most one pass over its first LONGEST_LINE
    characters for each pattern.

    :param rules: those without log patterns are never found.
    """

    def __init__(self, rules: RuleTable) -> None:
        self._names = [rule.name for rule in rules]
        self._patterns = [(rank, pattern) for rank, rule in enumerate(rules) for pattern in rule.log_patterns]
        self._ranks: dict[str, int] = {}

    def feed(self, pod_name: str, line: str) -> None:
        """Take in a line of the training container.

        A progress line takes back what the pod's log said before: the program went on in spite of it, as one does that
        makes its batch smaller when memory runs out.
        """
        if line.startswith(PROGRESS_PREFIX):
            self._ranks.pop(pod_name, None)
            return
        text, known = line[:LONGEST_LINE], self._ranks.get(pod_name)
        for rank, pattern in self._patterns:
            if known is not None and rank >= known:
                return
            if occurs(pattern, text):
                self._ranks[pod_name] = rank
                break
        while len(self._ranks) > MOST_PODS:
            del self._ranks[next(iter(self._ranks))]

    @property
    def findings(self) -> Mapping[str, str]:
        """Pod name -> name of the rule that its log matches."""
        return {pod: self._names[rank] for pod, rank in self._ranks.items()}
