"""Kubernetes quantities (`500m`, `8Gi`, `1e3`) as exact numbers.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from fractions import Fraction

_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_BINARY = {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))")


class QuantityError(ValueError):
    """Text that is not a quantity."""


def parse_quantity(text: object) -> Fraction:
    """Return the exact value of a quantity as it stands in a document.

    :param text: a string, or a number where YAML or JSON made one of it.
    :raises QuantityError: when it is not a quantity.
    """
    match = _QUANTITY.fullmatch(str(text))
    if match is None or isinstance(text, bool):
        raise QuantityError(f"{text!r} is not a quantity; write for example 500m, 4 or 8Gi")
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:])
    return Fraction(number) * (_BINARY.get(suffix) or _DECIMAL[suffix])


def divide_up(value: Fraction, divisor: Fraction) -> int:
    """Return value / divisor, rounded up as the downward API rounds."""
    return -(-value // divisor)
