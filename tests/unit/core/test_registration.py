"""One version of a model for one training, however often registration runs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_training.core.registration import (
    TAG_FINGERPRINT,
    TAG_GENERATION,
    KnownModelVersion,
    TrainedModel,
    plan_registration,
    tags_of,
)

pytestmark = pytest.mark.core

TRAINED = TrainedModel(
    registered_model="flight-delay",
    model_uri="models:/m-1",
    mlflow_run_id="f" * 32,
    fingerprint="sha256:" + "f" * 64,
    generation=2,
    data_version="2026-03-01",
    data_digest="sha256:" + "d" * 64,
    image="xgboost-trainer@sha256:" + "a" * 64,
    dag_run="scheduled__2026-03-02T07:30:00+00:00",
    job_uid="u-1",
)
OURS = {TAG_FINGERPRINT: TRAINED.fingerprint, TAG_GENERATION: "2"}


def version(number: str, tags: dict[str, str] | None = None, **more: Any) -> KnownModelVersion:
    return KnownModelVersion(version=number, tags=OURS if tags is None else tags, **more)


@pytest.mark.parametrize(
    ("known", "reuse"),
    [
        ([], None),
        ([version("1", {})], None),
        ([version("1", {**OURS, TAG_GENERATION: "1"})], None),
        ([version("1", {**OURS, TAG_FINGERPRINT: "sha256:" + "0" * 64})], None),
        ([version("1", usable=False)], None),
        ([version("1", usable=False), version("3")], "3"),
        ([version("4")], "4"),
        # Numbers, not texts: 9 is older than 10.
        ([version("10"), version("9")], "9"),
    ],
)
def test_a_training_that_is_registered_already_is_not_registered_again(
    known: list[KnownModelVersion], reuse: str | None
) -> None:
    assert plan_registration(TRAINED, known, alias="candidate").reuse == reuse


def test_a_version_is_traced_by_its_tags() -> None:
    plan = plan_registration(TRAINED, [], alias="candidate")
    assert (plan.alias, plan.registered_model, plan.model_uri) == ("candidate", "flight-delay", "models:/m-1")
    assert plan.tags == {
        "gpu_training.fingerprint": TRAINED.fingerprint,
        "gpu_training.generation": "2",
        "gpu_training.data_version": "2026-03-01",
        "gpu_training.data_digest": TRAINED.data_digest,
        "gpu_training.image": TRAINED.image,
        "gpu_training.dag_run": TRAINED.dag_run,
        "gpu_training.job_uid": "u-1",
    }


@given(st.lists(st.builds(version, st.integers(1, 30).map(str), st.sampled_from([OURS, {}])), max_size=5))
def test_once_applied_a_plan_is_repeated_without_another_version(known: list[KnownModelVersion]) -> None:
    plan = plan_registration(TRAINED, known, alias="candidate")
    made = plan.reuse or "31"
    after = [*known, version(made, tags_of(TRAINED))]
    assert plan_registration(TRAINED, after, alias="candidate").reuse == made
    assert plan_registration(TRAINED, reversed(after), alias="candidate").reuse == made
