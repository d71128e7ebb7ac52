"""What a task hands on through XCom: small plain data, whatever a training reports."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_training.contract import ContractError, Result, ResultStatus, parse_result, render_result
from gpu_training.core.attempts import Attempt
from gpu_training.core.events import JobReference, Work
from gpu_training.operators.outcomes import result_document

pytestmark = pytest.mark.unit

JOB = JobReference(namespace="n" * 63, name="j" * 63, uid="5f0c2f6e-6d0e-4d2e-8d9c-0a1b2c3d4e5f")
WORK = Work(
    model="m" * 40,
    image="registry/" + "i" * 200,
    fingerprint="sha256:" + "0" * 64,
    lineage="0123456789abcdef",
    generation=1,
    data_version="v" * 128,
    data_digest="sha256:" + "1" * 64,
    mlflow_run_id="0123456789abcdef0123456789abcdef",
)
ATTEMPTS = [
    Attempt(
        number=number,
        pod=f"pod-{number}",
        uid=f"uid-{number}",
        node=f"node-{number}.{'x' * 50}",
        started_at=100.0,
        ended_at=160.0,
        gpus=8,
        gpu_seconds=480.0,
        estimated=False,
        verdict=None,
        first_step=1,
        last_step=10,
    )
    for number in range(1, 31)
]
LARGEST_BYTES = 12_288

texts = st.none() | st.text(max_size=300)
counts = st.none() | st.integers(min_value=0, max_value=2**62)
results = st.builds(
    Result,
    status=st.just(ResultStatus.TRAINED),
    metrics=st.dictionaries(st.text(max_size=30), st.floats(allow_nan=False, allow_infinity=False), max_size=60),
    model_uri=texts,
    mlflow_run_id=texts,
    device=texts,
    last_step=counts,
    checkpoint_step=counts,
)


def document_of(result: Result | None) -> dict[str, Any]:
    return result_document(JOB, WORK, "", ATTEMPTS, result)


def is_plain(value: object) -> bool:
    """Whether a value is whole JSON data by its very types: an enum's member or a tuple is none."""
    if type(value) is dict:
        return all(type(key) is str and is_plain(entry) for key, entry in value.items())
    if type(value) is list:
        return all(is_plain(entry) for entry in value)
    return value is None or type(value) in (str, int, float, bool)


@pytest.mark.case("C083")
@pytest.mark.case("C084")
@settings(max_examples=100, deadline=None, derandomize=True)
@given(results)
def test_whatever_a_training_reports_what_is_handed_on_is_small_plain_data(result: Result) -> None:
    try:
        left = parse_result(render_result(result))
    except ContractError:
        return  # too much to be left at all
    document = document_of(left)

    assert is_plain(document)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(json.dumps(document)) < LARGEST_BYTES
    assert document["metrics"] == left.metrics


@pytest.mark.case("C083")
@pytest.mark.parametrize("metrics", [100, 1_000, 100_000])
def test_metrics_of_any_number_fit_or_are_refused_where_they_are_written(metrics: int) -> None:
    result = Result(status=ResultStatus.TRAINED, metrics={f"metric_{n}": n / 7 for n in range(metrics)})
    with pytest.raises(ContractError, match="at most 2048 fit; report fewer metrics"):
        render_result(result)


@pytest.mark.case("C084")
def test_nothing_of_the_job_but_its_name_is_handed_on() -> None:
    document = document_of(None)

    assert is_plain(document)
    assert [document[name] for name in ("job", "namespace", "job_uid")] == [JOB.name, JOB.namespace, JOB.uid]
    assert not [name for name in ("spec", "status", "metadata", "env") if name in document]
    assert document["mlflow_run_id"] == WORK.mlflow_run_id
