"""The annotation of a Job that tells how far its training is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.damage import anything, damaged

from gpu_training.contract import Progress
from gpu_training.core.progress_document import MOST_PODS, ToldProgress, from_text, to_text
from gpu_training.core.steps import Steps

pytestmark = pytest.mark.core

TOLD = ToldProgress(
    at=1796066660.5,
    pod="p-2",
    progress=Progress(step=80, total=200, loss=0.25, throughput=2.0, checkpoint_step=60, first_step=61),
    steps={"p-1": Steps(first=1, least=1, last=60, checkpoint=60), "p-2": Steps(first=61, least=62, last=80)},
)


def test_the_annotation_is_one_object_with_the_names_of_the_contract() -> None:
    assert json.loads(to_text(TOLD)) == {
        "v": 1,
        "at": 1796066660.5,
        "pod": "p-2",
        "step": 80,
        "total": 200,
        "loss": 0.25,
        "throughput": 2.0,
        "checkpoint_step": 60,
        "first_step": 61,
        "steps": {
            "p-1": {"first": 1, "least": 1, "last": 60, "checkpoint": 60},
            "p-2": {"first": 61, "least": 62, "last": 80},
        },
    }


counts = st.integers(min_value=0, max_value=2**63 - 1)
maybe = st.none() | counts
numbers = st.none() | st.floats(allow_nan=False, allow_infinity=False, max_value=1e300, min_value=-1e300)
names = st.text(alphabet="abc-.0", min_size=1, max_size=8)
tolds = st.builds(
    ToldProgress,
    at=st.integers(min_value=0, max_value=2**40 - 1).map(float),
    pod=names,
    progress=st.builds(
        Progress,
        step=counts,
        total=counts,
        loss=numbers,
        throughput=numbers,
        checkpoint_step=maybe,
        first_step=maybe,
    ),
    steps=st.dictionaries(
        names, st.builds(Steps, first=maybe, least=maybe, last=maybe, checkpoint=maybe), max_size=MOST_PODS
    ),
)


@given(tolds)
def test_what_was_written_is_read_back(told: ToldProgress) -> None:
    assert from_text(to_text(told)) == told


def test_of_many_pods_those_heard_of_last_are_written_down_and_the_text_stays_small() -> None:
    steps = {f"{'p' * 240}-{n}": Steps(first=2**62, least=2**62, last=2**62, checkpoint=2**62) for n in range(1000)}
    text = to_text(ToldProgress(at=1.0, pod="p", progress=Progress(step=1), steps=steps))
    read = from_text(text)
    assert read is not None
    assert list(read.steps) == list(steps)[-MOST_PODS:]
    assert len(text) < 10_000


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"v":2,"at":1,"pod":"p","step":1}', '{"v":1,"at":1,"pod":"p"}', "[" * 9999]
)
def test_anything_else_tells_nothing(text: str) -> None:
    assert from_text(text) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1", "true", '"5"', "[]", "9" * 400])
def test_a_number_that_is_none_is_not_known(number: str) -> None:
    read = from_text(
        f'{{"v":1,"at":5,"pod":"p","step":1,"total":{number},"throughput":null,"checkpoint_step":{number}}}'
    )
    assert read is not None
    assert (read.progress.total, read.progress.checkpoint_step) == (0, None)
    assert from_text(f'{{"v":1,"at":{number},"pod":"p","step":1}}') is None


@given(damaged(json.loads(to_text(TOLD))) | anything)
def test_whatever_somebody_wrote_there_is_read_or_tells_nothing(document: object) -> None:
    told = from_text(json.dumps(document, default=str))
    assert told is None or from_text(to_text(told)) is not None


@given(st.text())
def test_no_text_makes_the_reader_fail(text: str) -> None:
    assert from_text(text) is None or text.strip().startswith("{")
