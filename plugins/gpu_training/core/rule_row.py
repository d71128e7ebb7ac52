"""One rule in YAML -> one row of the table of failure rules, or what is wrong with it by itself."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields, is_template, nearest
from gpu_training.core.rules import Rule
from gpu_training.core.shadowing import repetition
from gpu_training.core.syntax import LABEL_KEY
from gpu_training.core.text_pattern import ANY, literal_length
from gpu_training.core.verdict import Action, Category, Owner

MAX_VALUES: Final = 255
"""Most values of one matcher; as many exit codes there are."""
LONGEST_PATTERN: Final = 200
SHORTEST_LOG_PATTERN: Final = 4

_NAME: Final = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
_OF_THE_PROGRAM: Final = ("exit_codes", "container_reasons", "log_patterns")
_MATCHERS: Final = (
    "exit_codes",
    "pod_conditions",
    "container_reasons",
    "pod_reasons",
    "admission_reasons",
    "log_patterns",
)

# How a Job as a whole ended: no end of a single pod is any of these.
_OF_A_JOB: Final = frozenset(
    {
        Category.RESULT_MISSING,
        Category.RESULT_INVALID,
        Category.DELETED,
        Category.REPLACED,
        Category.BUDGET_SPENT,
        Category.NOT_RESUMED,
        Category.UNREACHABLE,
        Category.UNKNOWN,
    }
)

_Value = TypeVar("_Value", bound=StrEnum)


def parse_rule(fields: Fields) -> Rule:
    """Give the rule in a document.

    :raises ConfigurationError: the first fault found.
    """
    rule = Rule(
        name=fields.text("name", pattern=_NAME, allowed="a name (lower-case letters, digits and `-`, at most 63)"),
        category=_one_of([c for c in Category if c not in _OF_A_JOB], fields, "category"),
        owner=_one_of(list(Owner), fields, "owner"),
        action=_one_of(list(Action), fields, "action"),
        remedy=_line(fields, "remedy", fields.text("remedy", allowed="what the owner does next", limit=400)),
        exit_codes=_exit_codes(fields),
        pod_conditions=_texts(fields, "pod_conditions", LABEL_KEY, "a condition's type"),
        container_reasons=_reasons(fields, "container_reasons"),
        pod_reasons=_reasons(fields, "pod_reasons"),
        admission_reasons=_reasons(fields, "admission_reasons"),
        log_patterns=_log_patterns(fields),
        overrides=_texts(fields, "overrides", _NAME, "a rule's name"),
    )
    fields.finish()
    if not any(getattr(rule, matcher) for matcher in _MATCHERS):
        raise fields.refuse("name", f"this rule matches nothing: give it one of {', '.join(_MATCHERS)}")
    if rule.action is Action.WAIT:
        _check_wait(fields, rule)
    return rule


def _check_wait(fields: Fields, rule: Rule) -> None:
    for name in _OF_THE_PROGRAM:
        if getattr(rule, name):
            raise fields.refuse(
                name,
                "`wait` is for what happens to a pod (pod_conditions, pod_reasons, admission_reasons): what the "
                "program does would be repeated without end; use `retry`, which spends attempts",
            )


def _one_of(values: list[_Value], fields: Fields, name: str) -> _Value:
    known = [value.value for value in values]
    text = fields.text(name, allowed=f"one of {', '.join(known)}")
    found = next((value for value in values if value == text), None)
    if found is None:
        raise fields.refuse(name, f"one of {', '.join(known)} is expected{nearest(text, known)}")
    return found


def _exit_codes(fields: Fields) -> tuple[int, ...]:
    codes = []
    for n, value in enumerate(_values(fields, "exit_codes", fields.sequence("exit_codes"))):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 255:
            said = "; 0 is success" if value == 0 else ""
            raise ConfigurationError(
                f"{fields.path('exit_codes')}[{n}]", value, f"a whole number from 1 to 255 is expected{said}"
            )
        codes.append(value)
    return tuple(codes)


def _texts(fields: Fields, name: str, pattern: str, allowed: str) -> tuple[str, ...]:
    texts = fields.texts(name)
    for n, text in enumerate(texts):
        fields.check(f"{name}[{n}]", text, pattern, allowed)
    _values(fields, name, texts)
    return texts


def _reasons(fields: Fields, name: str) -> tuple[str, ...]:
    allowed = f"a reason of at most {LONGEST_PATTERN} characters (`{ANY}` stands for any text)"
    return _texts(fields, name, rf"[!-~]{{1,{LONGEST_PATTERN}}}", allowed)


def _log_patterns(fields: Fields) -> tuple[str, ...]:
    patterns = fields.texts("log_patterns")
    for n, pattern in enumerate(patterns):
        path = f"log_patterns[{n}]"
        _line(fields, path, pattern)
        if len(pattern) > LONGEST_PATTERN or literal_length(pattern) < SHORTEST_LOG_PATTERN:
            raise ConfigurationError(
                fields.path(path),
                pattern,
                f"at most {LONGEST_PATTERN} characters are allowed, and at least {SHORTEST_LOG_PATTERN} of them have "
                f"to be neither `{ANY}` nor blank, or every line would match",
            )
    _values(fields, "log_patterns", patterns)
    return patterns


def _values(fields: Fields, name: str, values: tuple[object, ...]) -> tuple[object, ...]:
    if len(values) > MAX_VALUES:
        raise fields.refuse(name, f"at most {MAX_VALUES} values are allowed")
    plain = [value for value in values if isinstance(value, (str, int))]
    again = repetition(name, plain)
    if again is not None:
        raise ConfigurationError(fields.path(name), again, "is taken by a value before it: leave it out")
    return values


def _line(fields: Fields, path: str, text: str) -> str:
    if not text.isprintable() or is_template(text):
        raise ConfigurationError(fields.path(path), text, "one line of plain text is expected, without Jinja")
    return text
