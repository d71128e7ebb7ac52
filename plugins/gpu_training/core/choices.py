"""What a team chooses among in YAML and in the trigger form. The values are public."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from gpu_training.core.fields import Fields


class IfTrained(StrEnum):
    """What a run gets whose work is trained already."""

    REUSE = "reuse"
    RETRAIN = "retrain"


class IfNotResumed(StrEnum):
    """What follows when an attempt begins at the first step though a checkpoint was there."""

    WARN = "warn"
    STOP = "stop"


_Choice = TypeVar("_Choice", bound=StrEnum)


def parse_choice(fields: Fields, name: str, default: _Choice) -> _Choice:
    """Give the choice in a field; the default where the field is absent, or a template still.

    :raises ConfigurationError: it is none of the values.
    """
    kind = type(default)
    value = fields.text(name, default, allowed=f"one of {', '.join(kind)}")
    if fields.is_late(fields.take(name, "")):
        return default
    if value not in set(kind):
        raise fields.refuse(name, f"one of {', '.join(kind)} is expected")
    return kind(value)
