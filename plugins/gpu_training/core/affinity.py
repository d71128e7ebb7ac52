"""Keeping a pod off nodes by their names, whatever else its affinity asks for."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_training.core.overlay import Document, child, children


def keep_off(pod: Document, nodes: Sequence[str], where: str) -> None:
    """Have the scheduler pass nodes over.

    The terms of a node selector are alternatives, so each of them gets the exclusion; a field selector holds exactly
    one name, so there is one a node.
    https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#NodeAffinity

    :param nodes: names of Nodes.
    :param where: path of the pod, for messages.
    """
    if not nodes:
        return
    affinity = child(child(pod, "affinity", where), "nodeAffinity", f"{where}.affinity")
    required = child(affinity, "requiredDuringSchedulingIgnoredDuringExecution", f"{where}.affinity.nodeAffinity")
    if not children(required, "nodeSelectorTerms", f"{where}.affinity.nodeAffinity.required"):
        required["nodeSelectorTerms"] = [{}]
    exclusions = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    for term in required["nodeSelectorTerms"]:
        term["matchFields"] = [*children(term, "matchFields", where), *exclusions]
