"""What differs in the next Job, laid over its document."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.specs import SETTINGS, identity, spec

from gpu_training.core.manifest import build_job
from gpu_training.core.next_job_document import lay_differences_over
from gpu_training.core.placement import Toleration
from gpu_training.core.spec import TrainingSpec
from gpu_training.rule_table import built_in_rules

pytestmark = pytest.mark.core

SPOT = Toleration(key="spot", value="true", effect="NoSchedule")
DECLARED = spec(
    node_selector={"workload": "gpu-training"}, tolerations=[{"key": "spot", "value": "true", "effect": "NoSchedule"}]
)
BASE: dict[str, Any] = {
    "spec": {
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "training",
                        "resources": {
                            "requests": dict(DECLARED.resources.requests),
                            "limits": dict(DECLARED.resources.limits),
                        },
                    },
                    {"name": "sidecar", "resources": {"limits": {"memory": "64Mi"}}},
                ],
                "nodeSelector": {"workload": "gpu-training", "zone": "a"},
                "tolerations": [{"key": "mine", "operator": "Exists"}],
            }
        }
    }
}


def pod_of(actual: TrainingSpec) -> dict[str, Any]:
    job = build_job(BASE, DECLARED, identity(DECLARED), SETTINGS, built_in_rules())
    lay_differences_over(job, DECLARED, actual)
    return dict(job["spec"]["template"]["spec"])


def test_a_job_that_differs_in_nothing_is_as_it_was_built() -> None:
    built = build_job(BASE, DECLARED, identity(DECLARED), SETTINGS, built_in_rules())
    assert pod_of(DECLARED) == built["spec"]["template"]["spec"]


def test_more_memory_replaces_what_the_base_repeats_of_the_spec_and_touches_no_sidecar() -> None:
    limits = {**DECLARED.resources.limits, "memory": "4Gi"}
    larger = replace(DECLARED, resources=replace(DECLARED.resources, limits=limits, requests=limits))
    training, sidecar = pod_of(larger)["containers"]
    assert training["resources"]["limits"]["memory"] == training["resources"]["requests"]["memory"] == "4Gi"
    assert sidecar["resources"]["limits"] == {"memory": "64Mi"}


def test_other_nodes_replace_the_specs_own_and_keep_what_the_base_alone_asks_for() -> None:
    pod = pod_of(replace(DECLARED, node_selector={"capacity": "on-demand"}, tolerations=()))
    assert pod["nodeSelector"] == {"zone": "a", "capacity": "on-demand"}
    assert {toleration["key"] for toleration in pod["tolerations"]} == {"nvidia.com/gpu", "mine"}
