"""No pattern that is held against what programs print costs more than one pass over it: logs are untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import pytest

from gpu_training.core import contract_lines, log_lines, log_parser, progress_bar

pytestmark = pytest.mark.core

MODULES: Final = (contract_lines, log_lines, log_parser, progress_bar)
PATTERNS: Final = [
    pytest.param(value, id=f"{module.__name__.rpartition('.')[2]}.{name}")
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
]
MOST_TAKEN_BACK: Final = 24
"""Characters that one repetition may give back: what it costs at most for each character of a line."""

# How the standard library itself reads patterns; it has no other name for it.
_parser: ModuleType = import_module("re._parser")


def parts(tree: Any) -> Iterator[tuple[str, Any]]:
    """Give the operations of a pattern, outer ones first."""
    for operation, argument in tree:
        yield str(operation), argument
        for inner in _inner(argument):
            yield from parts(inner)


def _inner(argument: Any) -> Iterator[Any]:
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (tuple, list)):
        for each in argument:
            yield from _inner(each)


def gives_back_much(pattern: str, flags: int = 0) -> bool:
    """Whether a repetition in it may give back more than a few characters, one after another."""
    return any(
        operation in ("MAX_REPEAT", "MIN_REPEAT") and int(argument[1]) > MOST_TAKEN_BACK
        for operation, argument in parts(_parser.parse(pattern, flags))
    )


def begins_with_any_number(pattern: str, flags: int = 0) -> bool:
    """Whether it begins with a repetition without a bound, and fails after it: then it begins anew at each place."""
    tree = list(_parser.parse(pattern, flags))
    operation, argument = tree[0]
    return "REPEAT" in str(operation) and int(argument[1]) > MOST_TAKEN_BACK and len(tree) > 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_looks_at_each_character_a_bounded_number_of_times(pattern: re.Pattern[str]) -> None:
    assert not gives_back_much(pattern.pattern, pattern.flags & ~re.UNICODE)
    assert not begins_with_any_number(pattern.pattern, pattern.flags & ~re.UNICODE)


@pytest.mark.parametrize(
    ("pattern", "much", "anew"),
    [
        (r"loss *[=: ] *\d", True, False),
        (r"(?:a(?:b.*c)?)d", True, False),
        (r"loss *+[=:]", False, False),
        (r" *+x", False, True),
        (r"\d++", False, False),
        (r"\d{1,9}x", False, False),
    ],
)
def test_a_pattern_of_the_other_kind_is_told(pattern: str, much: bool, anew: bool) -> None:
    assert (gives_back_much(pattern), begins_with_any_number(pattern)) == (much, anew)
