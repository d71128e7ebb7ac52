"""The JSON Schemas in docs/schema and the code that writes and reads say the same of every document."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gpu_training.contract import (
    PROGRESS_PREFIX,
    RESULT_LIMIT_BYTES,
    ContractError,
    Marker,
    Progress,
    Result,
    ResultStatus,
    is_file_name,
    parse_marker,
    parse_progress,
    parse_result,
    render_marker,
    render_progress,
    render_result,
)

pytestmark = pytest.mark.unit

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}-1.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


PROGRESS, RESULT, CHECKPOINT = validator("progress"), validator("result"), validator("checkpoint")

COUNTS = st.integers(0, 2**63 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.just(2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXTS,
    st.just([]),
    st.just({}),
    st.just({"rmse": 0.5}),
    st.just({"rmse": "low"}),
)


def reads_progress(body: object) -> bool:
    """Tell whether the reader takes a line, and every field of it."""
    progress = parse_progress(PROGRESS_PREFIX + json.dumps(body))
    if progress is None or not isinstance(body, dict):
        return False
    return all(getattr(progress, name) is not None for name in OPTIONAL if name in body)


OPTIONAL = ("loss", "throughput", "checkpoint_step", "first_step")


def reads_result(body: object) -> bool:
    try:
        parse_result(json.dumps(body))
    except ContractError:
        return False
    return True


def reads_marker(body: object) -> bool:
    step = body.get("step") if isinstance(body, dict) else None
    try:
        parse_marker(json.dumps(body).encode(), step if isinstance(step, int) else 0)
    except ContractError:
        return False
    return True


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"step": 1}, True),
        ({"v": 1, "step": 0, "total": 0}, True),
        (
            {
                "v": 1,
                "step": 80,
                "total": 200,
                "loss": 0.31,
                "throughput": 12.5,
                "checkpoint_step": 75,
                "first_step": 1,
            },
            True,
        ),
        ({"v": 1, "step": 1, "loss": -2, "colour": "blue"}, True),
        ({"v": 2, "step": 1}, False),
        ({"v": "1", "step": 1}, False),
        ({"v": True, "step": 1}, False),
        ({"v": 1}, False),
        ({"step": -1}, False),
        ({"step": 1.5}, False),
        ({"step": "1"}, False),
        ({"step": True}, False),
        ({"step": 2**63}, False),
        ({"step": 1, "total": None}, False),
        ({"step": 1, "loss": "low"}, False),
        ({"step": 1, "loss": True}, False),
        ({"step": 1, "first_step": -1}, False),
        ({"step": 1, "checkpoint_step": 1.5}, False),
        ([], False),
        (1, False),
    ],
)
def test_schema_and_reader_agree_on_progress(body: object, is_valid: bool) -> None:
    assert (PROGRESS.is_valid(body), reads_progress(body)) == (is_valid, is_valid)


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"v": 1, "status": "trained"}, True),
        ({"v": 1, "status": "failed", "error": "no luck"}, True),
        ({"v": 1, "status": "trained", "metrics": {"rmse": 36.9}, "first_step": 1, "last_step": 120}, True),
        ({"v": 1, "status": "trained", "checkpoint_step": 120, "pod_uid": "5ad0f6e8", "device": "cuda"}, True),
        ({"v": 1, "status": "trained", "model_uri": None, "last_step": None}, True),
        ({"v": 1, "status": "trained", "colour": "blue"}, True),
        ({"status": "trained"}, False),
        ({"v": 2, "status": "trained"}, False),
        ({"v": True, "status": "trained"}, False),
        ({"v": 1}, False),
        ({"v": 1, "status": "done"}, False),
        ({"v": 1, "status": None}, False),
        ({"v": 1, "status": "trained", "model_uri": 1}, False),
        ({"v": 1, "status": "trained", "pod_uid": 1}, False),
        ({"v": 1, "status": "trained", "last_step": -1}, False),
        ({"v": 1, "status": "trained", "checkpoint_step": 1.5}, False),
        ({"v": 1, "status": "trained", "first_step": True}, False),
        ({"v": 1, "status": "trained", "metrics": []}, False),
        ({"v": 1, "status": "trained", "metrics": None}, False),
        ({"v": 1, "status": "trained", "metrics": {"rmse": "1"}}, False),
        ({"v": 1, "status": "trained", "metrics": {"rmse": True}}, False),
        ([], False),
    ],
)
def test_schema_and_reader_agree_on_results(body: object, is_valid: bool) -> None:
    assert (RESULT.is_valid(body), reads_result(body)) == (is_valid, is_valid)


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"v": 1, "step": 40, "fingerprint": "f", "files": {"model": "sha256:0"}}, True),
        ({"v": 1, "step": 40, "files": {"model": "sha256:0"}}, True),
        ({"step": 40, "files": {"model": "sha256:0"}}, False),
        ({"v": 1, "files": {"model": "sha256:0"}}, False),
        ({"v": 1, "step": 40, "files": {}}, False),
        ({"v": 1, "step": 40, "files": {"model": 1}}, False),
        ({"v": 1, "step": 40, "files": {"COMPLETE": "sha256:0"}}, False),
        ([], False),
    ],
)
def test_schema_and_reader_agree_on_markers(body: object, is_valid: bool) -> None:
    assert (CHECKPOINT.is_valid(body), reads_marker(body)) == (is_valid, is_valid)


def whole_numbers(body: Any) -> Any:
    """JSON Schema takes 1.0 for a whole number; the readers do not, and no program of ours writes it."""
    if isinstance(body, dict):
        return {name: whole_numbers(value) for name, value in body.items()}
    return body + 0.5 if isinstance(body, float) and body.is_integer() and math.isfinite(body + 0.5) else body


@given(st.fixed_dictionaries({"step": ODD | COUNTS}, optional={"v": ODD, "total": ODD, **dict.fromkeys(OPTIONAL, ODD)}))
def test_schema_and_reader_agree_on_any_progress(body: dict[str, Any]) -> None:
    body = {name: whole_numbers(value) if name not in ("loss", "throughput") else value for name, value in body.items()}
    assert PROGRESS.is_valid(body) == reads_progress(body)


RESULT_FIELDS = (
    "data_version",
    "model_uri",
    "metrics",
    "first_step",
    "last_step",
    "checkpoint_step",
    "pod_uid",
    "error",
)


@given(
    st.fixed_dictionaries(
        {"v": st.just(1) | ODD, "status": st.sampled_from(["trained", "failed"]) | ODD},
        optional=dict.fromkeys(RESULT_FIELDS, ODD | COUNTS),
    )
)
def test_schema_and_reader_agree_on_any_result(body: dict[str, Any]) -> None:
    body = whole_numbers(body)
    assert RESULT.is_valid(body) == reads_result(body)


@given(
    st.builds(
        Progress,
        step=COUNTS,
        total=COUNTS,
        loss=st.none() | st.floats(),
        throughput=st.none() | st.floats(),
        checkpoint_step=st.none() | COUNTS,
        first_step=st.none() | COUNTS,
    )
)
def test_every_line_that_is_written_is_valid(progress: Progress) -> None:
    PROGRESS.validate(json.loads(render_progress(progress).removeprefix(PROGRESS_PREFIX)))


@given(
    st.builds(
        Result,
        status=st.sampled_from(ResultStatus),
        metrics=st.dictionaries(TEXTS, NUMBERS, max_size=3),
        model_uri=st.none() | TEXTS,
        last_step=st.none() | COUNTS,
        checkpoint_step=st.none() | COUNTS,
        pod_uid=st.none() | TEXTS,
        error=st.none() | st.text(max_size=3000),
    )
)
def test_every_result_that_is_written_is_valid(result: Result) -> None:
    text = render_result(result)
    RESULT.validate(json.loads(text))
    assert len(text.encode()) <= RESULT_LIMIT_BYTES


@given(COUNTS, TEXTS, st.dictionaries(TEXTS.filter(is_file_name), TEXTS, min_size=1, max_size=3))
def test_every_marker_that_is_written_is_valid(step: int, fingerprint: str, files: dict[str, str]) -> None:
    CHECKPOINT.validate(json.loads(render_marker(Marker(step=step, fingerprint=fingerprint, files=files))))


def test_every_field_that_is_written_is_in_a_schema() -> None:
    assert set(PROGRESS.schema["properties"]) == {"v", *Progress.__dataclass_fields__}
    assert set(RESULT.schema["properties"]) == {"v", *Result.__dataclass_fields__}
    assert set(CHECKPOINT.schema["properties"]) == {"v", *Marker.__dataclass_fields__}
