"""Variables of the training container that a team declares; the operator's own are in the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpu_training.contract import Variable
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields
from gpu_training.core.syntax import A_NAME, DATA_KEY, DNS_SUBDOMAIN, VARIABLE_NAME

_RESERVED_PREFIX: Final = "GPU_TRAINING_"
_OWN: Final = frozenset(variable.value for variable in Variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """One key of a Secret, for an environment variable."""

    secret: str
    key: str


def parse_environment(fields: Fields) -> dict[str, str]:
    """Give the field `environment`, every value as text.

    :raises ConfigurationError: the first fault found.
    """
    environment = fields.scalars("environment")
    for name in environment:
        _check_variable(fields, f"environment.{name}", name)
    return environment


def parse_secret_environment(fields: Fields) -> dict[str, SecretKey]:
    """Give the field `secret_environment`: variables whose values only the cluster knows.

    :raises ConfigurationError: the first fault found.
    """
    section = fields.section("secret_environment")
    plain = fields.section("environment").names()
    found = {}
    for name in section.names():
        _check_variable(section, name, name)
        if name in plain:
            raise ConfigurationError(section.path(name), name, "is in environment too: one of the two is expected")
        entry = section.section(name, required=True)
        found[name] = SecretKey(
            secret=entry.text("secret", pattern=DNS_SUBDOMAIN, allowed=A_NAME),
            key=entry.text("key", pattern=DATA_KEY, allowed="a key of the Secret (letters, digits, `-_.`)"),
        )
        entry.finish()
    return found


def _check_variable(fields: Fields, path: str, name: str) -> None:
    fields.check(path, name, VARIABLE_NAME, "a variable's name (letters, digits, `_`, `-`, `.`; no digit in front)")
    if name in _OWN or name.startswith(_RESERVED_PREFIX):
        raise ConfigurationError(fields.path(path), name, "is a name of the operator's own: choose another")
