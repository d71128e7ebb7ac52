"""The node refuses a pod for the reasons, and in the words, of a kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.agent.admission import find_refusal, requested

pytestmark = pytest.mark.unit

GPU = "nvidia.com/gpu"
NODE: dict[str, Any] = {
    "metadata": {"name": "gpu-1", "labels": {"zone": "a", "size": "3"}},
    "spec": {"taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", GPU: "2", "pods": "3"}},
}


def pod(*requests: dict[str, str], init: tuple[dict[str, str], ...] = (), **spec: Any) -> dict[str, Any]:
    return {
        "spec": {
            "containers": [{"resources": {"requests": one}} for one in requests or ({},)],
            "initContainers": [{"resources": {"requests": one}} for one in init],
            **spec,
        }
    }


@pytest.mark.parametrize(
    ("new", "others", "reason", "words"),
    [
        (pod({GPU: "3"}), [pod({GPU: "1"})], f"OutOf{GPU}", f"{GPU}, requested: 3, used: 1, capacity: 2"),
        (pod({"cpu": "3500m"}), [pod({"cpu": "1"})], "OutOfcpu", "cpu, requested: 3500, used: 1000, capacity: 4000"),
        (pod({"memory": "9Gi"}), [], "OutOfmemory", "memory, requested: 9663676416, used: 0, capacity: 8589934592"),
        (pod(), [pod(), pod(), pod()], "OutOfpods", "pods, requested: 1, used: 3, capacity: 3"),
    ],
)
def test_what_does_not_fit_is_told_with_numbers(
    new: dict[str, Any], others: list[dict[str, Any]], reason: str, words: str
) -> None:
    assert find_refusal(new, NODE, others) == (reason, f"Node didn't have enough resource: {words}")


@pytest.mark.parametrize(
    "new",
    [
        pod(),
        pod({GPU: "2"}),
        pod({"amd.com/gpu": "8"}),  # not a resource of this node: none of the kubelet's business
        pod({GPU: "0"}),
        pod(nodeSelector={"zone": "a"}),
    ],
)
def test_what_fits_is_taken(new: dict[str, Any]) -> None:
    assert find_refusal(new, NODE, []) is None


def test_request_is_the_larger_of_the_containers_and_the_largest_init_container() -> None:
    amounts = requested(pod({GPU: "1"}, {GPU: "1"}, init=({GPU: "3"}, {GPU: "1"}), overhead={"cpu": "1"}))
    assert amounts == {GPU: 3, "cpu": 1}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({"nodeSelector": {"zone": "b"}}, False),
        (affinity(rule("zone", "In", "a", "b")), True),
        (affinity(rule("zone", "NotIn", "a")), False),
        (affinity(rule("none", "NotIn", "a")), True),
        (affinity(rule("zone", "Exists")), True),
        (affinity(rule("none", "DoesNotExist")), True),
        (affinity(rule("size", "Gt", "2")), True),
        (affinity(rule("size", "Lt", "2")), False),
        (affinity(rule("zone", "Gt", "2")), False),
        (affinity(rule("zone", "In", "b"), rule("zone", "In", "a")), True),
        (affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}), True),
        (affinity({}), False),
    ],
)
def test_selector_and_affinity_hold_on_the_node(spec: dict[str, Any], fits: bool) -> None:
    refusal = find_refusal(pod(**spec), NODE, [])
    assert (refusal is None) is fits
    assert fits or (refusal is not None and refusal[0] == "NodeAffinity")


@pytest.mark.parametrize(
    ("tolerations", "fits"),
    [
        ([], False),
        ([{"operator": "Exists"}], True),
        ([{"key": "spot", "operator": "Exists", "effect": "NoExecute"}], True),
        ([{"key": "spot", "value": "yes"}], True),
        ([{"key": "spot", "value": "no"}], False),
        ([{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}], False),
    ],
)
def test_only_taints_that_would_evict_are_asked_about(tolerations: list[dict[str, str]], fits: bool) -> None:
    spot = {"key": "spot", "value": "yes", "effect": "NoExecute"}
    node = {**NODE, "spec": {"taints": [*NODE["spec"]["taints"], spot]}}
    assert (find_refusal(pod(tolerations=tolerations), node, []) is None) is fits
