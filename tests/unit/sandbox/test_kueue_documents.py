"""What is told to the API server and to Kueue itself, without either."""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.errors import SandboxError
from sandbox.kueue import ClusterQueue, LocalQueue, Preempt, Priority
from sandbox.kueue.installation import CRDS, WEBHOOKS, Address, configuration, kinds, visibility, webhooks

pytestmark = pytest.mark.unit


@pytest.fixture
def address(tmp_path: Path) -> Address:
    authority = tmp_path / "ca.crt"
    authority.write_text("an authority")
    return Address(webhook_port=9443, visibility_port=8082, authority=authority)


def write(path: Path, *documents: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(documents))


def test_a_cluster_queue_counts_cpu_and_memory_too_and_lends_gpus_only() -> None:
    queue = ClusterQueue(name="research", gpus=4, cohort="company", borrows=2, lends=1, preempts=Preempt.LOWER_PRIORITY)
    spec = queue.document()["spec"]
    (group,) = spec["resourceGroups"]
    (flavor,) = group["flavors"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert flavor["resources"][-1] == {
        "name": "nvidia.com/gpu",
        "nominalQuota": "4",
        "borrowingLimit": "2",
        "lendingLimit": "1",
    }
    assert all(resource.keys() == {"name", "nominalQuota"} for resource in flavor["resources"][:-1])
    assert spec["cohortName"] == "company"
    assert spec["preemption"] == {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Never"}
    assert "cohortName" not in ClusterQueue(name="alone", gpus=1).document()["spec"]


def test_local_queues_and_priorities() -> None:
    assert LocalQueue(name="a", namespace="b", cluster_queue="c").document()["spec"] == {"clusterQueue": "c"}
    priority = Priority(name="urgent", value=9).document()
    assert (priority["value"], "spec" in priority) == (9, False)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [({"preempts": Preempt.ANY}, "preempts is Any"), ({"borrows": 1}, "cluster queue q borrows or lends and has no")],
)
def test_a_queue_that_kueue_would_not_take_is_refused(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SandboxError, match=complaint):
        ClusterQueue(name="q", gpus=1, **fields)


def test_kinds_of_two_forms_are_converted_by_the_controller(tmp_path: Path, address: Address) -> None:
    for name in ("jobs", "others"):
        write(tmp_path / CRDS / "bases" / f"{name}.yaml", {"metadata": {"name": name}, "spec": {"scope": "Cluster"}})
        write(tmp_path / CRDS / "patches" / f"webhook_in_{name}.yaml", {"metadata": {"name": name}})
    write(tmp_path / CRDS / "kustomization.yaml", {"patches": [{"path": "patches/webhook_in_jobs.yaml"}]})
    jobs, others = kinds(tmp_path, address)
    client = jobs["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client["url"] == "https://127.0.0.1:9443/convert"
    assert b64decode(client["caBundle"]) == b"an authority"
    assert "conversion" not in others["spec"]


def test_webhooks_of_integrations_that_are_off_are_left_out(tmp_path: Path, address: Address) -> None:
    hooks = [
        {
            "name": f"v{group}",
            "clientConfig": {"service": {"name": "w", "namespace": "s", "path": f"/{group}"}},
            "rules": [{"apiGroups": [group]}],
        }
        for group in ("batch", "ray.io", "kueue.x-k8s.io", "apps")
    ]
    write(tmp_path / WEBHOOKS / "manifests.yaml", {"metadata": {"name": "validating"}, "webhooks": hooks})
    (document,) = webhooks(tmp_path, address)
    assert [hook["clientConfig"]["url"] for hook in document["webhooks"]] == [
        "https://127.0.0.1:9443/batch",
        "https://127.0.0.1:9443/kueue.x-k8s.io",
    ]


def test_the_way_to_its_api_server_is_a_service_that_may_lead_to_this_machine(address: Address) -> None:
    service, *versions = visibility(address)
    assert service["spec"] == {"type": "ExternalName", "externalName": "127.0.0.1"}
    assert {each["spec"]["service"]["port"] for each in versions} == {8082}
    assert {each["spec"]["service"]["name"] for each in versions} == {service["metadata"]["name"]}


def test_the_controller_serves_on_loopback_only(address: Address) -> None:
    told = json.loads(configuration(address, certificates=Path("/c"), health_port=1, metrics_port=2))
    assert told["health"]["healthProbeBindAddress"] == "127.0.0.1:1"
    assert told["metrics"]["bindAddress"] == "127.0.0.1:2"
    assert (told["webhook"]["host"], told["visibilityServer"]["bindAddress"]) == ("127.0.0.1", "127.0.0.1")
    assert told["integrations"]["frameworks"] == ["batch/job"]
