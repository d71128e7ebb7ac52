"""Priority classes by what started a run."""

from __future__ import annotations

import pytest

from gpu_training.core.precedence import PriorityClass, priority_class_of, with_precedence

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("run_type", "expected"),
    [
        ("scheduled", PriorityClass.NIGHTLY),
        ("asset_triggered", PriorityClass.NIGHTLY),
        ("backfill", PriorityClass.BACKFILL),
        ("manual", PriorityClass.ON_DEMAND),
        ("", PriorityClass.ON_DEMAND),
        ("a type of a later Airflow", PriorityClass.ON_DEMAND),
    ],
)
def test_what_nobody_is_known_to_have_scheduled_counts_as_a_person_s(run_type: str, expected: PriorityClass) -> None:
    assert priority_class_of(run_type) == expected


def test_a_document_gets_a_template_only_where_it_says_nothing() -> None:
    silent: dict[str, object] = {"model": "m"}
    assert "dag_run.run_type" in str(with_precedence(silent)["priority_class"])
    assert silent == {"model": "m"}
    for said in ("urgent", "", None):
        assert with_precedence({"priority_class": said}) == {"priority_class": said}
