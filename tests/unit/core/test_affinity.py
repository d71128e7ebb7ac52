"""Nodes that failed are passed over, whatever else a pod's affinity asks for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_training.core.affinity import keep_off
from gpu_training.core.errors import ConfigurationError

pytestmark = pytest.mark.core


def off(node: str) -> dict[str, Any]:
    return {"key": "metadata.name", "operator": "NotIn", "values": [node]}


def terms_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    required = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms: list[dict[str, Any]] = required["nodeSelectorTerms"]
    return terms


def asking(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": copy.deepcopy(list(terms))}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
FIELD = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}


@pytest.mark.parametrize("pod", [{}, asking(), {"affinity": None}, {"affinity": {"nodeAffinity": {}}}])
def test_a_pod_that_asks_for_no_nodes_is_kept_off_them(pod: dict[str, Any]) -> None:
    keep_off(pod, ["gpu-1", "gpu-2"], "pod")
    assert terms_of(pod) == [{"matchFields": [off("gpu-1"), off("gpu-2")]}]


def test_each_alternative_gets_the_exclusion_and_keeps_what_it_asks_for() -> None:
    """They are alternatives: one without it would let the pod on the node."""
    pod = asking(ZONE, FIELD)
    keep_off(pod, ["gpu-7"], "pod")
    assert terms_of(pod) == [
        {**ZONE, "matchFields": [off("gpu-7")]},
        {"matchFields": [*FIELD["matchFields"], off("gpu-7")]},
    ]


def test_other_affinities_stay() -> None:
    pod: dict[str, Any] = {"affinity": {"podAntiAffinity": {"x": 1}, "nodeAffinity": {"preferred": []}}}
    keep_off(pod, ["gpu-7"], "pod")
    assert pod["affinity"]["podAntiAffinity"] == {"x": 1}
    assert pod["affinity"]["nodeAffinity"]["preferred"] == []


@pytest.mark.parametrize("pod", [{}, asking(ZONE)])
def test_without_bad_nodes_nothing_is_changed(pod: dict[str, Any]) -> None:
    kept = copy.deepcopy(pod)
    keep_off(pod, [], "pod")
    assert pod == kept


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        ({"affinity": []}, "pod.affinity"),
        ({"affinity": {"nodeAffinity": "x"}}, "pod.affinity.nodeAffinity"),
        (asking({"matchFields": "x"}), "pod.matchFields"),
    ],
)
def test_an_affinity_that_is_none_is_refused(pod: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        keep_off(pod, ["gpu-7"], "pod")
    assert caught.value.field == field
