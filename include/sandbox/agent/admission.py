"""Whether a pod may run on the node, as the kubelet asks once more when the pod arrives. Pure.

The scheduler has asked before; a pod with `nodeName` comes without it, and a node may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import Any

from sandbox.agent.devices import find_device_refusal
from sandbox.agent.quantities import parse_quantity

Document = Mapping[str, Any]

_CASED = {"cpu": "OutOfcpu", "memory": "OutOfmemory", "pods": "OutOfpods"}


def find_refusal(
    pod: Document, node: Document, others: Collection[Document], *, plugin_resource: str | None = None
) -> tuple[str, str] | None:
    """Return reason and message of the kubelet's refusal, or None when the pod is taken.

    :param others: the pods that the node has taken and that have not ended.
    :param plugin_resource: resource that a device plugin of the node serves.
    """
    if plugin_resource and (fault := find_device_refusal(pod, node, plugin_resource, others)):
        return "UnexpectedAdmissionError", f"Allocate failed due to {fault}, which is unexpected"
    return _shortage(pod, node, others) or _unmet_affinity(pod, node) or _untolerated_taint(pod, node)


def requested(pod: Document) -> dict[str, Fraction]:
    """Return what a pod asks for: the larger of all containers together and of the largest init container."""
    spec = pod["spec"]
    total: dict[str, Fraction] = {}
    for container in spec["containers"]:
        for name, amount in _requests(container).items():
            total[name] = total.get(name, Fraction(0)) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in _requests(container).items():
            total[name] = max(total.get(name, Fraction(0)), amount)
    for name, text in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Fraction(0)) + parse_quantity(text)
    return total


def _requests(container: Document) -> dict[str, Fraction]:
    resources = container.get("resources") or {}
    return {name: parse_quantity(text) for name, text in (resources.get("requests") or {}).items()}


def _shortage(pod: Document, node: Document, others: Iterable[Document]) -> tuple[str, str] | None:
    allocatable = node["status"]["allocatable"]
    used: dict[str, Fraction] = {}
    for other in others:
        used["pods"] = used.get("pods", Fraction(0)) + 1
        for name, amount in requested(other).items():
            used[name] = used.get(name, Fraction(0)) + amount
    for name, amount in {"pods": Fraction(1), **requested(pod)}.items():
        # A resource that the node does not have is not its business: the kubelet leaves it to whoever bound the pod.
        if name not in allocatable or not amount:
            continue
        taken, capacity = used.get(name, Fraction(0)), parse_quantity(allocatable[name])
        if taken + amount > capacity:
            unit = 1000 if name == "cpu" else 1
            return _CASED.get(name, f"OutOf{name}"), (
                f"Node didn't have enough resource: {name}, requested: {int(amount * unit)}, "
                f"used: {int(taken * unit)}, capacity: {int(capacity * unit)}"
            )
    return None


def _unmet_affinity(pod: Document, node: Document) -> tuple[str, str] | None:
    labels = node["metadata"].get("labels") or {}
    spec = pod["spec"]
    met = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        terms = required.get("nodeSelectorTerms") or ()
        met = met and any(_term_holds(term, node) for term in terms)
    if met:
        return None
    return "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"


def _term_holds(term: Document, node: Document) -> bool:
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions = [(rule, labels) for rule in term.get("matchExpressions") or ()]
    expressions += [(rule, fields) for rule in term.get("matchFields") or ()]
    return bool(expressions) and all(_rule_holds(rule, values) for rule, values in expressions)


def _rule_holds(rule: Document, labels: Mapping[str, str]) -> bool:
    value, wanted = labels.get(rule["key"]), list(rule.get("values") or ())
    match rule["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not value.lstrip("-").isdigit():
                return False
            return int(value) > int(wanted[0]) if rule["operator"] == "Gt" else int(value) < int(wanted[0])
    return False


def _untolerated_taint(pod: Document, node: Document) -> tuple[str, str] | None:
    tolerations = pod["spec"].get("tolerations") or ()
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] == "NoExecute" and not any(_tolerates(one, taint) for one in tolerations):
            return "TaintToleration", (
                "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
            )
    return None


def _tolerates(toleration: Document, taint: Document) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
