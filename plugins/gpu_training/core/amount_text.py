"""Amounts of a resource, as a person writes them."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from gpu_training.core.resources import GPU_RESOURCE

_BINARY: Final = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_EASILY_READ: Final = 10_000
_EXACT_BELOW: Final = 10
_BYTES: Final = ("memory", "ephemeral-storage", "storage")


def amount_text(resource: str, amount: Fraction) -> str:
    """Give an amount such as `2`, `1500m` or `12Gi`, rounded down to what is easily read: never more than there is."""
    if amount <= 0:
        return "0"
    if _is_bytes(resource):
        return _bytes(amount)
    if amount.denominator == 1:
        return str(amount.numerator)
    return f"{int(amount * 1000)}m"


def amount_of(resource: str, amount: Fraction) -> str:
    """Give an amount with what it is of, such as `2 GPUs` or `12Gi of memory`."""
    text = amount_text(resource, amount)
    if resource == GPU_RESOURCE:
        return f"{text} GPU" if text == "1" else f"{text} GPUs"
    return f"{text} of {resource}" if _is_bytes(resource) else f"{text} {resource}"


def _is_bytes(resource: str) -> bool:
    return resource in _BYTES or resource.startswith("hugepages-")


def _bytes(amount: Fraction) -> str:
    for suffix, unit in _BINARY:
        whole, rest = divmod(amount, unit)
        if not rest and whole < _EASILY_READ:
            return f"{whole}{suffix}"
        if whole:
            # Below ten, a tenth matters: 1.5Gi is not 1Gi.
            tenths = int(rest * 10 / unit)
            if whole >= _EXACT_BELOW or not _is_exact_below(amount, unit):
                return f"{whole}.{tenths}{suffix}" if whole < _EXACT_BELOW and tenths else f"{whole}{suffix}"
    return str(int(amount))


def _is_exact_below(amount: Fraction, unit: int) -> bool:
    """Whether a smaller unit writes the amount exactly in few digits: 1500Mi rather than 1.4Gi."""
    smaller = unit // 1024
    return smaller > 1 and amount % smaller == 0 and amount / smaller < _EASILY_READ
