"""Rules of which one can never hold, because an earlier one takes all that it is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_training.core.rules import Rule
from gpu_training.core.text_pattern import fits, occurs


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """A matcher of a later rule that an earlier rule takes.

    :param earlier_field: field of the earlier rule that takes it.
    :param field: field of the later rule.
    :param value: what of it is taken.
    """

    earlier: Rule
    earlier_field: str
    later: Rule
    field: str
    value: str | int


_TAKEN_BY: Final = {
    "exit_codes": ("exit_codes",),
    "pod_conditions": ("pod_conditions",),
    "container_reasons": ("container_reasons",),
    "pod_reasons": ("pod_reasons",),
    # A reason of a pod that a node turned away is one of the pod's.
    "admission_reasons": ("pod_reasons", "admission_reasons"),
    "log_patterns": ("log_patterns",),
}


def shadows_among(rules: Sequence[Rule]) -> Iterator[Shadow]:
    """Give what earlier rules take of later ones, but for what they override by name."""
    for n, later in enumerate(rules):
        for earlier in rules[:n]:
            if later.name not in earlier.overrides:
                yield from shadows_between(earlier, later)


def shadows_between(earlier: Rule, later: Rule) -> Iterator[Shadow]:
    """Give what one rule takes of another that comes after it, overridden or not."""
    for earlier_field, field, value in _taken(earlier, later):
        yield Shadow(earlier=earlier, earlier_field=earlier_field, later=later, field=field, value=value)


def repetition(field: str, values: Sequence[str | int]) -> str | int | None:
    """Give the first value of one field that those before it take; None when all are of use."""
    for n, value in enumerate(values):
        if any(_covers(field, before, value) for before in values[:n]):
            return value
    return None


def _taken(earlier: Rule, later: Rule) -> Iterator[tuple[str, str, str | int]]:
    for field, takers in _TAKEN_BY.items():
        for value in getattr(later, field):
            for taker in takers:
                if any(_covers(field, other, value) for other in getattr(earlier, taker)):
                    yield taker, field, value


def _covers(field: str, earlier: str | int, later: str | int) -> bool:
    # Whatever a pattern finds in another pattern's own text, it finds in all that the other describes: `*` is in no
    # literal piece of the first.
    if isinstance(earlier, int) or isinstance(later, int):
        return earlier == later
    return occurs(earlier, later) if field == "log_patterns" else fits(earlier, later)
