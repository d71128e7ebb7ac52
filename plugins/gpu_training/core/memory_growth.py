"""How memory grows from Job to Job of a lineage. A Job's own retries get no more: its pod template can not change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.fields import Fields
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import Resources, check_amount

_FACTOR: Final = r"[0-9](\.[0-9]{1,20})?"
_DEFAULT_FACTOR: Final = Fraction(3, 2)
_MAXIMUM_FACTOR: Final = 4
_DEFAULT_CAP: Final = 2
_MEBIBYTE: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryGrowth:
    """How memory grows after an attempt that ran out of it.

    :param factor: what the limit is multiplied by each time.
    :param maximum: the cap, as a Kubernetes quantity: an attempt that runs out of that much fails the training.
    """

    factor: Fraction
    maximum: str


def parse_memory_growth(fields: Fields, resources: Resources) -> MemoryGrowth:
    """Give the growth in a section. By default memory grows by half each time, up to twice the limit.

    :raises ConfigurationError: the first fault found.
    """
    limit = parse_quantity(resources.limits["memory"])
    raw = fields.take("factor", str(float(_DEFAULT_FACTOR)))
    factor = _DEFAULT_FACTOR if fields.is_late(raw) else _factor(fields, raw)
    maximum = fields.optional_text("maximum", allowed="a Kubernetes quantity, e.g. 64Gi,")
    late = maximum is not None and fields.is_late(fields.take("maximum"))
    fields.finish()
    if maximum is None or late:
        doubled = int((limit or 0) * _DEFAULT_CAP // _MEBIBYTE)
        return MemoryGrowth(factor=factor, maximum=f"{max(1, doubled)}Mi")
    amount = check_amount(fields.path("maximum"), maximum)
    if limit is not None and amount < limit:
        raise fields.refuse(
            "maximum",
            f"is below resources.limits.memory {resources.limits['memory']}: at least that is allowed; equal to it, "
            "memory never grows",
        )
    return MemoryGrowth(factor=factor, maximum=maximum)


def _factor(fields: Fields, raw: object) -> Fraction:
    bounded = isinstance(raw, (str, float)) or (isinstance(raw, int) and 0 < raw < 10)
    text = str(raw) if bounded else ""
    factor = Fraction(text) if re.fullmatch(_FACTOR, text) else Fraction(0)
    if not 1 < factor <= _MAXIMUM_FACTOR:
        raise fields.refuse("factor", f"a number above 1 and at most {_MAXIMUM_FACTOR} is expected")
    return factor


def grown(memory: str, growth: MemoryGrowth, steps: int) -> str:
    """Give a memory limit after so many steps, in whole mebibytes and at most the cap."""
    amount, cap = parse_quantity(memory), parse_quantity(growth.maximum)
    if amount is None or cap is None:
        raise ConfigurationError("memory", memory, "a Kubernetes quantity is expected")
    wanted = amount * growth.factor**steps
    return growth.maximum if wanted >= cap else f"{max(1, int(wanted // _MEBIBYTE))}Mi"


def is_largest(memory: str, cap: str) -> bool:
    """Whether a limit can not grow any more."""
    amount, most = parse_quantity(memory), parse_quantity(cap)
    return amount is None or most is None or amount >= most
