"""What the pods' logs say about their ends: the log patterns of the rules, looked for line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gpu_training.contract import PROGRESS_PREFIX
from gpu_training.core.contract_lines import progress_in
from gpu_training.core.rules import RuleTable
from gpu_training.core.text_pattern import ANY, occurs

LONGEST_LINE: Final = 4096
"""Characters of a line that are looked at, from its beginning."""
MOST_PODS: Final = 1000
"""Pods of which a finding is kept; beyond that the oldest is forgotten."""


class LogMatcher:
    """Keeps, of each pod, the first rule of the table that any line of its log has matched so far.

    A progress line takes back what the pod's log said before: the program went on in spite of it, as one does that
    makes its batch smaller when memory runs out.

    Time and memory are bounded, whatever a program prints: a line costs at most one pass over its first LONGEST_LINE
    characters for each pattern.

    :param rules: those without log patterns are never found.
    """

    def __init__(self, rules: RuleTable) -> None:
        self._names = [rule.name for rule in rules]
        self._patterns = [
            (rank, pattern, max(pattern.split(ANY), key=len))
            for rank, rule in enumerate(rules)
            for pattern in rule.log_patterns
        ]
        self._ranks: dict[str, int] = {}

    def feed_all(
        self,
        pod_name: str,
        lines: Sequence[str],
        *,
        joined: str | None = None,
        text_of: Callable[[str], str] = str,
    ) -> None:
        """Take in lines of the training container in order, with the same findings as one by one, and faster: where
        none of them can say anything, none is looked at alone.

        :param joined: all the lines as one text, where the caller has it anyway.
        :param text_of: gives what was said in a line.
        """
        joined = "\n".join(lines) if joined is None else joined
        if PROGRESS_PREFIX in joined:
            last = _last_progress(lines, text_of)
            if last is not None:
                self._ranks.pop(pod_name, None)
                lines = lines[last + 1 :]
        known = self._ranks.get(pod_name, len(self._names))
        for rank, pattern, piece in self._patterns:
            if rank >= known:
                return
            # That no line is looked at for a rule that none can tell is what makes a flood cheap.
            if piece in joined and any(piece in line and occurs(pattern, _seen(text_of(line))) for line in lines):
                self._keep(pod_name, rank)
                return

    def recall(self, findings: Mapping[str, str]) -> None:
        """Take in what a matcher found before, by rules of the same names; what was found since then counts as well."""
        for pod_name, name in findings.items():
            if name in self._names:
                self._keep(pod_name, min(self._names.index(name), self._ranks.get(pod_name, len(self._names))))

    @property
    def findings(self) -> Mapping[str, str]:
        """Pod name -> name of the rule that its log matches."""
        return {pod: self._names[rank] for pod, rank in self._ranks.items()}

    def _keep(self, pod_name: str, rank: int) -> None:
        self._ranks[pod_name] = rank
        while len(self._ranks) > MOST_PODS:
            del self._ranks[next(iter(self._ranks))]


def _seen(text: str) -> str:
    return text[:LONGEST_LINE]


def _last_progress(lines: Sequence[str], text_of: Callable[[str], str]) -> int | None:
    """Give the place of the last progress line. One of a later version tells that the program went on, too."""
    for n in range(len(lines) - 1, -1, -1):
        if PROGRESS_PREFIX in lines[n]:
            text = text_of(lines[n])
            if text.startswith(PROGRESS_PREFIX) or progress_in(text) is not None:
                return n
    return None
