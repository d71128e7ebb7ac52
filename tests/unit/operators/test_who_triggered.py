"""Whose runs renew a budget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk import Context
from airflow.sdk.api.datamodels._generated import DagRunType as WorkersType
from airflow.utils.types import DagRunType

from gpu_training.operators.gpu_training import _is_by_person

pytestmark = pytest.mark.unit

BY_PERSON = {"manual", "asset_materialization"}


@pytest.mark.parametrize("run_type", [*WorkersType, *DagRunType, *(str(each.value) for each in WorkersType), None])
def test_a_run_is_by_a_person_when_a_person_asked_for_it_or_for_its_asset(run_type: Any) -> None:
    context = cast("Context", {"dag_run": SimpleNamespace(run_type=run_type)})

    assert _is_by_person(context) is (getattr(run_type, "value", run_type) in BY_PERSON)
