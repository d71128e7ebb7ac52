"""How memory grows from Job to Job, and what of it is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.specs import document, spec

from gpu_training.core.errors import ConfigurationError
from gpu_training.core.memory_growth import MemoryGrowth, grown, is_largest
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.spec import parse_training_spec

pytestmark = pytest.mark.core


def limit(memory: str) -> dict[str, Any]:
    return {"limits": {"nvidia.com/gpu": 1, "memory": memory}}


@pytest.mark.parametrize(
    ("memory", "growth", "factor", "maximum"),
    [
        # By half each time, up to twice the limit.
        ("2Gi", {}, Fraction(3, 2), "4096Mi"),
        ("1Mi", {}, Fraction(3, 2), "2Mi"),
        ("3G", {}, Fraction(3, 2), "5722Mi"),
        ("2Gi", {"factor": 2}, Fraction(2), "4096Mi"),
        ("2Gi", {"factor": "1.25", "maximum": "64Gi"}, Fraction(5, 4), "64Gi"),
        ("2Gi", {"factor": 4.0, "maximum": "2048Mi"}, Fraction(4), "2048Mi"),
        ("2Gi", {"maximum": "2Gi"}, Fraction(3, 2), "2Gi"),
        ("2Gi", {"maximum": ""}, Fraction(3, 2), "4096Mi"),
    ],
)
def test_growth_is_read_with_its_defaults(memory: str, growth: dict[str, Any], factor: Fraction, maximum: str) -> None:
    read = spec(resources=limit(memory), shared_memory="0", memory_growth=growth).memory_growth
    assert read == MemoryGrowth(factor=factor, maximum=maximum)


@pytest.mark.parametrize(
    ("growth", "field", "allowed"),
    [
        ({"factor": 1}, "factor", "a number above 1 and at most 4 is expected"),
        ({"factor": 0.5}, "factor", "above 1"),
        ({"factor": -2}, "factor", "above 1"),
        ({"factor": 4.01}, "factor", "at most 4"),
        ({"factor": True}, "factor", "a number above 1"),
        ({"factor": "twice"}, "factor", "a number above 1"),
        ({"factor": "3/0"}, "factor", "a number above 1"),
        ({"factor": float("nan")}, "factor", "a number above 1"),
        ({"factor": float("inf")}, "factor", "a number above 1"),
        # As an exact fraction it would fill the memory.
        ({"factor": "1e999999999"}, "factor", "a number above 1"),
        ({"factor": "9" * 5000}, "factor", "a number above 1"),
        ({"factor": 10**5000}, "factor", "a number above 1"),
        ({"factor": [2]}, "factor", "a number above 1"),
        ({"maximum": "1Gi"}, "maximum", "is below resources.limits.memory 2Gi: at least that is allowed"),
        ({"maximum": "64GB"}, "maximum", "a Kubernetes quantity above 0"),
        ({"maximum": "0"}, "maximum", "above 0"),
        ({"maximum": 64}, "maximum", "quote it"),
        ({"limit": "64Gi"}, "limit", "unknown key"),
    ],
)
def test_growth_that_is_none_is_refused(growth: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(document(memory_growth=growth))
    assert (caught.value.field, caught.value.value) == (f"training.memory_growth.{field}", growth[field]) or (
        growth[field] != growth[field]
    )
    assert allowed in caught.value.allowed


@pytest.mark.parametrize(
    ("memory", "steps", "after"),
    [("2Gi", 0, "2048Mi"), ("2Gi", 1, "3072Mi"), ("2Gi", 2, "4608Mi"), ("2Gi", 3, "5Gi"), ("2Gi", 99, "5Gi"),
     ("9Gi", 1, "5Gi"), ("1048577", 1, "1Mi"), ("2.5G", 1, "3576Mi")],
)  # fmt: skip
def test_a_limit_grows_in_whole_mebibytes_up_to_the_cap(memory: str, steps: int, after: str) -> None:
    assert grown(memory, MemoryGrowth(factor=Fraction(3, 2), maximum="5Gi"), steps) == after


@pytest.mark.parametrize(("memory", "maximum"), [("much", "8Gi"), ("2Gi", "much")])
def test_what_is_no_amount_does_not_grow(memory: str, maximum: str) -> None:
    with pytest.raises(ConfigurationError, match="a Kubernetes quantity is expected"):
        grown(memory, MemoryGrowth(factor=Fraction(2), maximum=maximum), 1)


@given(st.integers(1, 10**6), st.integers(0, 40), st.fractions(Fraction(11, 10), 4))
def test_what_grew_to_the_cap_is_the_largest_and_nothing_else_is(mebibytes: int, steps: int, factor: Fraction) -> None:
    growth = MemoryGrowth(factor=factor, maximum=f"{2 * mebibytes}Mi")
    after = grown(f"{mebibytes}Mi", growth, steps)
    amount, cap = parse_quantity(after), parse_quantity(growth.maximum)
    assert amount is not None
    assert cap is not None
    assert amount <= cap
    assert is_largest(after, growth.maximum) == (amount == cap)
