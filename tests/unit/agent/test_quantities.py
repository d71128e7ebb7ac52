"""Quantities are exact, and nothing else passes for one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.agent.quantities import QuantityError, divide_up, parse_quantity

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("500m", Fraction(1, 2)),
        ("8Gi", 8 * 1024**3),
        ("1.5Ki", 1536),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("5E-1", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("100u", Fraction(1, 10**4)),
        (3, 3),
        ("-2k", -2000),
    ],
)
def test_quantity_means_what_kubernetes_says(text: object, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["", "Gi", "1 Gi", "4x", "1K", "0x10", True, None, "1e", "--1"])
def test_other_text_is_refused_by_name(text: object) -> None:
    with pytest.raises(QuantityError, match="is not a quantity"):
        parse_quantity(text)


@given(st.fractions(min_value=0, max_value=10**12), st.fractions(min_value=Fraction(1, 1000), max_value=10**6))
def test_division_rounds_up_and_by_less_than_one(value: Fraction, divisor: Fraction) -> None:
    assert 0 <= divide_up(value, divisor) - value / divisor < 1
