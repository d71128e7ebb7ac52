"""A Job in YAML's form and the stock operator's model of it."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import V1Job, V1JobSpec, V1PodTemplateSpec

from gpu_training.core.errors import ConfigurationError
from gpu_training.operators.stock_parameters import job_from_document, job_to_document

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "document",
    [
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {"suspend": False, "parallelism": 0}},
        {"spec": {"template": {"spec": {"hostNetwork": True, "initContainers": [{"name": "c", "image": "i"}]}}}},
    ],
)
def test_a_mapping_and_a_model_say_the_same(document: dict[str, Any]) -> None:
    again = job_to_document(job_from_document(document))
    assert again is not None
    spec = again.get("spec", {})
    if "template" not in document.get("spec", {}):
        spec.pop("template", None)
    assert {k: v for k, v in again.items() if v} == document


def test_none_stays_none() -> None:
    assert job_to_document(None) is None
    assert job_from_document(None) is None


def test_a_model_becomes_plain_data() -> None:
    job = V1Job(spec=V1JobSpec(template=V1PodTemplateSpec(), backoff_limit=0))
    assert job_to_document(job) == {"spec": {"template": {}, "backoffLimit": 0}}


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"spec": {"paralelism": 2}}, r"full_job_spec\.spec\.paralelism=2"),
        ({"kindd": "Job"}, "full_job_spec.kindd"),
        ({"spec": {"template": {"spec": {"containers": [{"name": "c", "imag": "i"}]}}}}, r"containers\[0\]\.imag"),
        ({"spec": {"backoff_limit": 2}}, "backoff_limit"),
    ],
)
def test_a_key_that_a_job_does_not_have_is_refused(document: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigurationError, match=path):
        job_from_document(document)


@pytest.mark.parametrize("job", ["text", 5, ["list"]])
def test_what_is_no_job_is_refused(job: Any) -> None:
    with pytest.raises(ConfigurationError, match="full_job_spec"):
        job_to_document(job)
