"""Which fields of a training a person may change when triggering it: declared in a model's YAML, typed and limited.

A parameter's usual value is the one that the training declares, so that a run started with the form left alone is the
same work as the nightly run: one fingerprint, one training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields, is_template
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.syntax import EXPANSION, NO_EXPANSION

DATA_VERSION: Final = "data_version"
DRY_RUN: Final = "dry_run"
RESERVED: Final = frozenset({DATA_VERSION, DRY_RUN})
"""Parameters that every on-demand DAG has, whatever the model declares."""

_NAME: Final = r"[a-z][a-z0-9_]{0,62}"

Value: TypeAlias = "int | float | str | bool"


class ParameterType(StrEnum):
    """Type of a parameter, as JSON schema names it. A public value: teams write it in YAML."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"


_PYTHON: Final[Mapping[ParameterType, tuple[type, ...]]] = {
    ParameterType.INTEGER: (int,),
    ParameterType.NUMBER: (int, float),
    ParameterType.STRING: (str,),
    ParameterType.BOOLEAN: (bool,),
}
_RENDERING: Final[Mapping[ParameterType, str]] = {
    # JSON knows one kind of number: a form may send 200.0 for 200, which must not read as other work.
    ParameterType.INTEGER: "{{{{ params.{name} | int }}}}",
    ParameterType.NUMBER: "{{{{ params.{name} | int if params.{name} | int == params.{name} else params.{name} }}}}",
    ParameterType.STRING: "{{{{ params.{name} }}}}",
    ParameterType.BOOLEAN: "{{{{ params.{name} | lower }}}}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A field of the training that the trigger form opens.

    :param sets: path of the field in the training document, key by key.
    :param default: what the training declares there; None when that is a template, which then stays in force until
        somebody enters a value.
    :param minimum: smallest value allowed, for numbers.
    :param maximum: largest value allowed, for numbers.
    :param pattern: regular expression that a text has to match, in the dialect that JSON schema and browsers share.
    :param choices: the only values allowed; empty for any.
    :param title: the field's name in the form; made of `name` when empty.
    """

    name: str
    sets: tuple[str, ...]
    type: ParameterType
    description: str
    default: Value | None
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    choices: tuple[Value, ...] = ()
    title: str = ""

    def json_schema(self) -> dict[str, object]:
        """Give the JSON schema of a value, with its title, without default and description."""
        optional = self.default is None
        limits = {"minimum": self.minimum, "maximum": self.maximum, "pattern": self.pattern}
        schema: dict[str, object] = {key: value for key, value in limits.items() if value is not None}
        schema["title"] = self.title or self.name.replace("_", " ").capitalize()
        schema["type"] = ["null", self.type.value] if optional else self.type.value
        if self.choices:
            schema["enum"] = [*self.choices, *([None] if optional else [])]
        if self.type is ParameterType.STRING:
            schema |= {"minLength": 1, "not": {"type": "string", "pattern": re.escape(EXPANSION)}}
        return schema

    def template(self, declared: object) -> str:
        """Give the Jinja text that stands in the training document in place of what is declared."""
        text = _RENDERING[self.type].format(name=self.name)
        if self.default is None:
            return f"{{% if params.{self.name} is not none %}}{text}{{% else %}}{declared}{{% endif %}}"
        return text

    def fault_of(self, value: object) -> str | None:
        """Give what is wrong with a value, in words; None when it is allowed."""
        kinds = _PYTHON[self.type]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            hint = "; YAML reads 1e-5 as a text, write 1.0e-5" if self.type is ParameterType.NUMBER else ""
            return f"a value of type {self.type} is expected{hint}"
        if self.choices and value not in self.choices:
            return f"one of {', '.join(map(repr, self.choices))} is expected"
        if isinstance(value, (int, float)) and not self._within(value):
            return f"a value from {_bound(self.minimum)} to {_bound(self.maximum)} is expected"
        if isinstance(value, str) and self.pattern is not None and re.search(self.pattern, value) is None:
            return f"a text that matches {self.pattern} is expected"
        return NO_EXPANSION if isinstance(value, str) and EXPANSION in value else None

    def _within(self, value: float) -> bool:
        # Written so that NaN, which compares false with everything, is outside.
        low = self.minimum is None or value >= self.minimum
        return low and (self.maximum is None or value <= self.maximum) and value == value


def _bound(value: float | None) -> str:
    return "any" if value is None else f"{value:g}"


def parse_parameters(fields: Fields, training: Mapping[str, object]) -> tuple[Parameter, ...]:
    """Give the parameters of a model, in the order declared.

    :param fields: reader of the model's document; its section `parameters` maps a name to a declaration.
    :param training: the training document; every parameter names a field that is written there.
    :raises ConfigurationError: the first fault found: an unknown field, a usual value outside the limits, a limit that
        the training itself would refuse, two parameters for one field.
    """
    found: list[Parameter] = []
    declared = fields.take("parameters", {})
    section = fields.section("parameters")
    for name in declared if isinstance(declared, Mapping) else ():
        parameter = _parameter(section, name, training)
        if twin := next((other.name for other in found if other.sets == parameter.sets), None):
            raise ConfigurationError(section.path(f"{name}.sets"), list(parameter.sets), f"is set by {twin} already")
        _check_limits(section, parameter, training)
        found.append(parameter)
    return tuple(found)


def with_parameters(training: Mapping[str, object], parameters: tuple[Parameter, ...]) -> dict[str, object]:
    """Give the training document with a template for every parameter; the document given stays as it is."""
    document: dict[str, object] = dict(training)
    for parameter in parameters:
        declared = _look_up(training, parameter.sets)
        document = replaced(document, parameter.sets, parameter.template(declared))
    return document


def replaced(document: Mapping[str, object], path: tuple[str, ...], value: object) -> dict[str, object]:
    """Give a copy of the document with another value at a path that it has."""
    head, *rest = path
    inner = document[head]
    if rest and isinstance(inner, Mapping):
        value = replaced(inner, tuple(rest), value)
    return {**document, head: value}


def canonical_number(value: Value) -> Value:
    """Give 1 for 1.0, so that a training's declared value and the same number from a form render alike."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _parameter(fields: Fields, name: str, training: Mapping[str, object]) -> Parameter:
    if re.fullmatch(_NAME, name) is None or name in RESERVED:
        raise ConfigurationError(
            fields.path(name), name, f"a name matching {_NAME} is expected, other than {', '.join(sorted(RESERVED))}"
        )
    body = fields.section(name)
    kind = ParameterType(
        body.text("type", pattern="|".join(ParameterType), allowed=f"one of {', '.join(ParameterType)}")
    )
    sets = body.texts("sets")
    declared = _look_up(training, sets)
    if declared is None or isinstance(declared, (Mapping, list, tuple)):
        raise ConfigurationError(
            body.path("sets"),
            list(sets),
            "a path to one value that the training declares is expected, e.g. [resources, limits, nvidia.com/gpu]",
        )
    parameter = Parameter(
        name=name,
        sets=sets,
        type=kind,
        description=body.text("description", limit=500),
        default=None if is_template(declared) else _default(declared),
        minimum=_limit(body, "minimum"),
        maximum=_limit(body, "maximum"),
        pattern=_pattern(body),
        choices=_choices(body),
        title=body.optional_text("title", limit=100) or "",
    )
    body.finish()
    for value, path in [(parameter.default, "sets"), *((choice, "enum") for choice in parameter.choices)]:
        if value is not None and (fault := parameter.fault_of(value)):
            raise ConfigurationError(body.path(path), value, fault)
    return parameter


def _look_up(document: object, path: tuple[str, ...]) -> object:
    """Give the value at a path, or None where it does not lead."""
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if path else None


def _default(declared: object) -> Value | None:
    return canonical_number(declared) if isinstance(declared, (int, float, str)) else None


def _limit(body: Fields, name: str) -> float | None:
    value = body.take(name, None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value != value):
        raise body.refuse(name, "a number is expected")
    return value


def _pattern(body: Fields) -> str | None:
    pattern = body.optional_text("pattern", limit=500)
    try:
        re.compile(pattern or "")
    except re.error as exc:
        raise body.refuse("pattern", f"a regular expression is expected: {exc}") from None
    return pattern


def _choices(body: Fields) -> tuple[Value, ...]:
    choices = body.sequence("enum")
    for n, choice in enumerate(choices):
        if not isinstance(choice, (int, float, str)):
            raise ConfigurationError(body.path(f"enum[{n}]"), choice, "a text, a number, or true or false is expected")
    return tuple(choice for choice in choices if isinstance(choice, (int, float, str)))


def _check_limits(fields: Fields, parameter: Parameter, training: Mapping[str, object]) -> None:
    """Try both ends on the training, so that the form never offers what the training then refuses."""
    if parameter.minimum is not None and parameter.maximum is not None and parameter.minimum > parameter.maximum:
        raise ConfigurationError(fields.path(f"{parameter.name}.minimum"), parameter.minimum, "is above the maximum")
    for end in ("minimum", "maximum"):
        value = getattr(parameter, end)
        if value is None:
            continue
        try:
            parse_training_spec(replaced(training, parameter.sets, value), templates=True)
        except ConfigurationError as exc:
            raise ConfigurationError(
                fields.path(f"{parameter.name}.{end}"), value, f"the training refuses that: {exc}"
            ) from None
