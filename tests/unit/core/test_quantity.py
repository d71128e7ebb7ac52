"""Quantities are compared as amounts, exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpu_training.core.quantity import parse_quantity

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1", Fraction(1)),
        (1, Fraction(1)),
        ("0", Fraction(0)),
        ("-1", Fraction(-1)),
        ("+1", Fraction(1)),
        ("1.", Fraction(1)),
        (".5", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        ("500m", Fraction(1, 2)),
        ("100n", Fraction(1, 10**7)),
        ("8Gi", Fraction(8 * 2**30)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("8G", Fraction(8 * 10**9)),
        ("1k", Fraction(1000)),
        ("1Ki", Fraction(1024)),
        ("1E", Fraction(10**18)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
    ],
)
def test_a_quantity_has_an_exact_value(text: object, amount: Fraction) -> None:
    assert parse_quantity(text) == amount


@pytest.mark.parametrize(
    "text",
    ["", " ", " 1", "1 ", "1\n", "Gi", "1gi", "1GB", "1KiB", "1 Gi", "1,5", "0x10", "1e", "1e999", "--1", "٣", ".",
     "1" * 31, None, True, 1.5, [], 10**30, b"1"],
)  # fmt: skip
def test_anything_else_is_none(text: object) -> None:
    assert parse_quantity(text) is None
