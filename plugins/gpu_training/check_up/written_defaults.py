"""A model's templates, rendered with the default that each of them has written in it, since no run is there to ask."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from gpu_training.core.fields import is_template

_VARIABLE: Final = "AIRFLOW_VAR_"
"""What Airflow's own environment variables for Variables begin with.

https://airflow.apache.org/docs/apache-airflow/stable/howto/variable.html#storing-variables-in-environment-variables
"""
_MISSING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A document without templates, as far as they could be rendered.

    :param unknown: paths of the leaves that are templates still, such as `arguments.rounds`.
    """

    document: dict[str, Any]
    unknown: tuple[str, ...]


class _Variables:
    """`var.value` and `var.json` in a template."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        self._read = read

    def get(self, key: str, default: Any = _MISSING, **names: Any) -> Any:
        value = self._read(key)
        if value is not _MISSING:
            return value
        # Airflow 2 called it so, and templates live long.
        default = names.get("default_var", default)
        if default is _MISSING:
            raise TemplateError(f"variable {key!r} is not known here")
        return default

    def __getattr__(self, key: str) -> Any:
        value = self._read(key)
        if value is _MISSING:
            raise AttributeError(key)
        return value


def render_written_defaults(document: Mapping[str, Any]) -> Rendered:
    """Give a document whose templates are rendered with their written defaults, or with a Variable that this process's
    own environment has; what else Airflow alone knows stays a template."""
    unknown: list[str] = []
    rendered = _render(document, "", unknown, SandboxedEnvironment(undefined=StrictUndefined))
    return Rendered(document=rendered, unknown=tuple(unknown))


def _render(value: Any, path: str, unknown: list[str], environment: SandboxedEnvironment) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _render(entry, f"{path}.{key}" if path else str(key), unknown, environment)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_render(entry, f"{path}[{n}]", unknown, environment) for n, entry in enumerate(value)]
    if not is_template(value):
        return value
    try:
        return environment.from_string(value).render(
            var={"value": _Variables(_plain_variable), "json": _Variables(_json_variable)}
        )
    except Exception:  # whatever a template stumbles over here, it is Airflow that can render it
        unknown.append(path)
        return value


def _plain_variable(key: str) -> Any:
    return os.environ.get(_VARIABLE + key.upper(), _MISSING)


def _json_variable(key: str) -> Any:
    value = _plain_variable(key)
    return value if value is _MISSING else json.loads(value)
