"""What a lineage may spend: defaults that follow from the rest of the spec, and contradictions refused in words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.specs import document

from gpu_training.core.budget import DEFAULT_DISRUPTIONS, Budget, DeclaredBudget
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.spec import parse_training_spec
from gpu_training.core.terms import Terms

pytestmark = pytest.mark.core

_T = "{{ params.x }}"
_TWO_GPUS = {"limits": {"nvidia.com/gpu": 2, "memory": "2Gi"}}


def refusal(body: dict[str, Any], **options: Any) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        parse_training_spec(body, **options)
    return caught.value


@pytest.mark.parametrize(
    ("budget", "changes", "field", "allowed"),
    [
        # Contradictions.
        ({"attempts": 2}, {}, "attempts",
         "contradicts backoff_limit 2, by which a single Job makes 3 attempts: raise this one or lower that one"),
        ({"attempts": 1}, {"backoff_limit": 1}, "attempts", "contradicts backoff_limit 1"),
        ({"wall_seconds": 1799}, {}, "wall_seconds",
         "contradicts deadline_seconds 1800, which a single Job may take: at least that is allowed"),
        ({"gpu_seconds": 9}, {}, "gpu_seconds", "pays for less than 10 seconds of 1 GPUs: at least 10 is allowed"),
        ({"gpu_seconds": 19}, {"resources": _TWO_GPUS}, "gpu_seconds", "at least 20 is allowed"),
        # Values.
        ({"attempts": 0}, {}, "attempts", "a whole number from 1 to 100 attempts is expected"),
        ({"attempts": 101}, {}, "attempts", "from 1 to 100"),
        ({"attempts": True}, {}, "attempts", "a whole number"),
        ({"disruptions": -1}, {}, "disruptions", "a whole number from 0 to 100 disruptions is expected"),
        ({"disruptions": 101}, {}, "disruptions", "to 100"),
        ({"gpu_seconds": 1.5}, {}, "gpu_seconds", "a whole number from 1 to 2592000000 GPU-seconds is expected"),
        ({"gpu_seconds": 0}, {}, "gpu_seconds", "from 1"),
        ({"wall_seconds": "1h"}, {}, "wall_seconds", "a whole number from 1 to 2592000 seconds is expected"),
        ({"wall_seconds": 2592001}, {}, "wall_seconds", "to 2592000"),
        ({"price": 5}, {}, "price", "unknown key"),
    ],
)  # fmt: skip
def test_a_budget_that_can_not_be_meant_is_refused(
    budget: dict[str, Any], changes: dict[str, Any], field: str, allowed: str
) -> None:
    error = refusal(document(budget=budget, **changes))
    assert (error.field, error.value) == (f"training.budget.{field}", budget[field])
    assert allowed in error.allowed


@pytest.mark.parametrize(
    ("budget", "changes"),
    [
        ({}, {}),
        ({"attempts": 3}, {}),
        ({"attempts": 1}, {"backoff_limit": 0}),
        ({"disruptions": 0}, {}),
        ({"gpu_seconds": 10}, {}),
        ({"wall_seconds": 1800}, {}),
        ({"attempts": "3", "wall_seconds": "1800"}, {}),
        ({"attempts": 100, "disruptions": 100, "gpu_seconds": 2592000000, "wall_seconds": 2592000}, {}),
    ],
)
def test_a_budget_at_its_bounds_is_one(budget: dict[str, Any], changes: dict[str, Any]) -> None:
    assert parse_training_spec(document(budget=budget, **changes)).budget


@pytest.mark.parametrize(
    ("budget", "changes", "field"),
    [
        ({"attempts": 2, "disruptions": _T}, {}, "attempts"),
        ({"attempts": _T, "wall_seconds": 5}, {}, "wall_seconds"),
        ({"attempts": 0}, {"backoff_limit": _T}, "attempts"),
    ],
)
def test_all_that_is_known_is_checked_beside_a_template(
    budget: dict[str, Any], changes: dict[str, Any], field: str
) -> None:
    assert refusal(document(budget=budget, **changes), templates=True).field == f"training.budget.{field}"


# Defaults.


@pytest.mark.parametrize(
    ("declared", "backoff_limit", "retries", "attempts", "wall_seconds"),
    [
        # As many as one of the two retriers would make, never the product of both.
        (DeclaredBudget(), 2, 0, 3, 1800),
        (DeclaredBudget(), 0, 3, 4, 1800),
        (DeclaredBudget(), 2, 3, 4, 1800),
        (DeclaredBudget(), 0, 0, 1, 1800),
        (DeclaredBudget(attempts=7, wall_seconds=9000), 2, 3, 7, 9000),
    ],
)
def test_the_default_is_what_one_of_the_two_retriers_would_make(
    declared: DeclaredBudget, backoff_limit: int, retries: int, attempts: int, wall_seconds: int
) -> None:
    assert declared.resolve(backoff_limit=backoff_limit, retries=retries, deadline_seconds=1800) == Budget(
        attempts=attempts, disruptions=DEFAULT_DISRUPTIONS, gpu_seconds=None, wall_seconds=wall_seconds
    )


@given(
    st.builds(
        Budget,
        attempts=st.integers(1, 100),
        disruptions=st.integers(0, 100),
        gpu_seconds=st.none() | st.integers(1, 10**9),
        wall_seconds=st.integers(1, 10**6),
    ),
    st.booleans(),
)
def test_the_terms_travel_as_plain_data(budget: Budget, has_fallback: bool) -> None:
    terms = Terms(budget=budget, has_fallback=has_fallback, memory_cap="8Gi")
    assert Terms.from_document(terms.to_document()) == terms
