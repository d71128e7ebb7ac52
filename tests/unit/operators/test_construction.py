"""What is refused when a DAG file is parsed, and how parameters render."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from kubernetes.client import V1EnvVar, V1Job, V1JobSpec, V1PodTemplateSpec, V1ResourceRequirements

from gpu_training.core.errors import ConfigurationError
from gpu_training.operators.gpu_training import GpuTrainingOperator

pytestmark = pytest.mark.unit

VERSION = {
    "source": "s",
    "ref": "latest",
    "id": "v",
    "digest": "sha256:" + "0" * 64,
    "uri": "s3://b/m.json",
    "created_at": "2026-01-01T00:00:00+00:00",
}


def spec(**changes: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "image": "i:1",
        "entrypoint": ["train"],
        "resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 1}},
        "deadline_seconds": 600,
        "backoff_limit": 0,
        "ttl_seconds_after_finished": 600,
        **changes,
    }


def operator(training: Any = None, **parameters: Any) -> GpuTrainingOperator:
    arguments = {"task_id": "train", "data_version": VERSION, **parameters}
    return GpuTrainingOperator(training=training or spec(), **arguments)


REFUSED_SPECS = [
    ({"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": 0.5}}}, "nvidia.com/gpu"),
    ({"resources": {"limits": {"memory": "1Gi", "nvidia.com/gpu": -1}}}, "nvidia.com/gpu"),
    ({"resources": {"limits": {"memory": "1Gi"}, "requests": {"nvidia.com/gpu": 1}}}, "nvidia.com/gpu"),
    ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "memory"),
    ({"deadline_seconds": 1}, "deadline_seconds"),
    ({"ttl_seconds_after_finished": 59}, "ttl_seconds_after_finished"),
    ({"environment": {"A B": "c"}}, "environment"),
    ({"deadline": 600}, "deadline_seconds"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED_SPECS)
def test_a_wrong_spec_is_refused_at_construction(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        operator(spec(**change))


CONTRADICTIONS = [
    ("image", "other:1", "training.image"),
    ("cmds", ["sh"], "training.entrypoint"),
    ("arguments", ["-x"], "training.arguments"),
    ("env_vars", {"A": "b"}, "training.environment"),
    ("env_vars", [V1EnvVar(name="A", value="hunter2")], "training.environment"),
    ("container_resources", V1ResourceRequirements(), "training.resources"),
    ("namespace", "other", "training.namespace"),
    ("active_deadline_seconds", 60, "training.deadline_seconds"),
    ("backoff_limit", 0, "training.backoff_limit"),
    ("ttl_seconds_after_finished", 0, "training.ttl_seconds_after_finished"),
    ("service_account_name", "root", "training.service_account"),
    ("name", "mine", "identity"),
    ("random_name_suffix", True, "identity"),
    ("wait_until_job_complete", False, "always waited for"),
    ("on_kill_propagation_policy", "Background", "foreground"),
]


@pytest.mark.case("C019")
@pytest.mark.parametrize(("name", "value", "said"), CONTRADICTIONS)
def test_a_stock_parameter_that_contradicts_the_spec_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}=.*{said}") as caught:
        operator(**{name: value})
    assert "hunter2" not in str(caught.value)


@pytest.mark.case("C015")
def test_more_pods_than_have_to_succeed_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="parallelism=2"):
        operator(parallelism=2, completions=1)


@pytest.mark.case("C088")
@pytest.mark.case("C092")
def test_every_leaf_renders() -> None:
    job = V1Job(spec=V1JobSpec(template=V1PodTemplateSpec(), suspend=False))
    job.metadata = {"annotations": {"day": "{{ ds }}"}}
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1)):
        task = operator(
            spec(
                image="i:{{ tag }}",
                environment={"DAY": "{{ ds }}"},
                resources={"limits": {"memory": "{{ 8 * try_number }}Gi", "nvidia.com/gpu": "{{ gpus }}"}},
            ),
            data_version="{{ version }}",
            validate_only="{{ dry }}",
            full_job_spec=job,
            labels={"day": "{{ ds }}"},
        )
    values = {"tag": "7", "ds": "2026-01-02", "try_number": 2, "gpus": 2, "version": "v", "dry": False}
    task.render_template_fields(values)

    assert task.training["image"] == "i:7"
    assert task.training["environment"] == {"DAY": "2026-01-02"}
    assert task.training["resources"]["limits"] == {"memory": "16Gi", "nvidia.com/gpu": "2"}
    assert task.data_version == "v"
    assert task.validate_only == "False"
    assert task.full_job_spec["metadata"]["annotations"] == {"day": "2026-01-02"}
    assert task.labels == {"day": "2026-01-02"}


@pytest.mark.case("C011")
def test_a_mapped_task_is_checked_when_it_is_unmapped() -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1)):
        mapped = GpuTrainingOperator.partial(task_id="train", data_version=VERSION).expand(training=[spec(), spec()])
    task = mapped.unmap({"training": spec(model="other")})

    assert task.training["model"] == "other"


def test_the_templates_are_always_the_same_and_in_order() -> None:
    assert list(GpuTrainingOperator.template_fields) == sorted(GpuTrainingOperator.template_fields)


def test_the_result_is_pushed_without_the_stock_sidecar() -> None:
    assert operator().do_xcom_push is True


def test_importing_the_operator_imports_neither_mlflow_nor_our_cluster_modules() -> None:
    code = (
        "import sys, gpu_training.operators.gpu_training, gpu_training.triggers.training\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('mlflow', 'pandas', 'xgboost')"
        " or m.startswith('gpu_training.cluster.')])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.splitlines()[-1] == "[]"
