"""A pod, or a template of one -> what it demands of a node, as the scheduler reads it.

Total: what is absent or of another shape reads as not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Final

from gpu_training.core.documents import Document, child, entries, text, texts, whole
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import GPU_RESOURCE

DEFAULT_SCHEDULER: Final = "default-scheduler"
PODS: Final = "pods"
"""The resource of which every pod takes one."""

_NOTHING: Final = Fraction(0)
_POD_LEVEL: Final = ("cpu", "memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One expression of a node affinity.

    :param key: of a label, or of a field of the node.
    :param operator: `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`; by any other one nothing matches.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One of the alternatives of a required node affinity: all of its expressions have to hold.

    :param fields: about the node's `metadata.name`, the only field there is.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerated:
    """A toleration as Kubernetes has it: an empty key or effect tolerates any."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a pod demands of the node that it runs on.

    :param gpus: whole GPUs.
    :param requests: of each resource, in its base unit; the pod itself counts as 1 of `pods`.
    :param terms: alternatives of the required node affinity; None when it asks for none. Of an empty tuple, none holds.
    :param priority: as admission resolved it; 0 in a template.
    :param preempts: whether pods of lower priority may be ended for it.
    :param gates: names of its scheduling gates.
    :param claims: names of the PersistentVolumeClaims that it mounts.
    """

    gpus: int = 0
    requests: Mapping[str, Fraction] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Tolerated, ...] = ()
    priority: int = 0
    priority_class: str = ""
    preempts: bool = True
    gates: tuple[str, ...] = ()
    scheduler: str = DEFAULT_SCHEDULER
    image: str = ""
    claims: tuple[str, ...] = ()


def demand_of(document: object) -> Demand:
    """Give the demand of a Pod, of a pod template, or of the template in a Job."""
    spec = child(document, "spec")
    if isinstance(spec.get("template"), Mapping):
        spec = child(spec["template"], "spec")
    requests = requests_of(spec)
    return Demand(
        gpus=int(requests.get(GPU_RESOURCE, _NOTHING)),
        requests=requests,
        selector=texts(spec, "nodeSelector"),
        terms=_terms(spec),
        tolerations=tuple(map(_tolerated, entries(spec, "tolerations"))),
        priority=whole(spec, "priority") or 0,
        priority_class=text(spec, "priorityClassName"),
        preempts=text(spec, "preemptionPolicy") != "Never",
        gates=tuple(text(gate, "name") for gate in entries(spec, "schedulingGates")),
        scheduler=text(spec, "schedulerName") or DEFAULT_SCHEDULER,
        image=_image(spec),
        claims=_claims(spec),
    )


def requests_of(spec: Document) -> dict[str, Fraction]:
    """Give what the scheduler counts for a pod, by resource: containers and sidecars together, or an init container
    with the sidecars before it where that alone takes more, and the overhead of its runtime class. Of CPU and memory,
    what the pod as a whole asks for goes before that.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers

    :param spec: of a pod.
    """
    sidecars: dict[str, Fraction] = {}
    peaks: dict[str, Fraction] = {}
    for container in entries(spec, "initContainers"):
        asked = _asked(child(container, "resources"))
        if text(container, "restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = {}
        _raise(peaks, _sum(sidecars, asked))
    together = dict(sidecars)
    for container in entries(spec, "containers"):
        _add(together, _asked(child(container, "resources")))
    _raise(together, peaks)
    whole_pod = _asked(child(spec, "resources"))
    together |= {name: whole_pod[name] for name in _POD_LEVEL if name in whole_pod}
    _add(together, amounts_of(child(spec, "overhead")))
    return {**together, PODS: Fraction(1)}


def _asked(resources: Document) -> dict[str, Fraction]:
    # The API server fills a request from its limit, in a pod and not in a template.
    return {**amounts_of(child(resources, "limits")), **amounts_of(child(resources, "requests"))}


def amounts_of(body: Document) -> dict[str, Fraction]:
    """Give the amounts of a list of resources, in their base units; what is no amount is left out."""
    found = (
        (name, _amount(value))
        for name, value in body.items()
        if isinstance(name, str) and isinstance(value, (str, int)) and not isinstance(value, bool)
    )
    return {name: amount for name, amount in found if amount is not None and amount >= 0}


@lru_cache(maxsize=4096)
def _amount(value: str | int) -> Fraction | None:
    """Give an amount: thousands of nodes and pods write the same few."""
    return parse_quantity(value)


def _add(total: dict[str, Fraction], more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, _NOTHING) + amount


def _sum(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    total = dict(one)
    _add(total, other)
    return total


def _raise(total: dict[str, Fraction], least: Mapping[str, Fraction]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, _NOTHING), amount)


def _terms(spec: Document) -> tuple[Term, ...] | None:
    affinity = child(child(spec, "affinity"), "nodeAffinity")
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not isinstance(required, Mapping):
        return None
    terms = (
        Term(
            labels=_requirements(entries(term, "matchExpressions")), fields=_requirements(entries(term, "matchFields"))
        )
        for term in entries(required, "nodeSelectorTerms")
    )
    # A term that says nothing matches nothing.
    return tuple(term for term in terms if term.labels or term.fields)


def _requirements(documents: Iterable[Document]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(key=text(each, "key"), operator=text(each, "operator"), values=_values(each)) for each in documents
    )


def _values(expression: Document) -> tuple[str, ...]:
    values = expression.get("values")
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, (list, tuple)) else ()


def _tolerated(document: Document) -> Tolerated:
    return Tolerated(
        key=text(document, "key"),
        operator=text(document, "operator") or "Equal",
        value=text(document, "value"),
        effect=text(document, "effect"),
    )


def _claims(spec: Document) -> tuple[str, ...]:
    names = (text(child(volume, "persistentVolumeClaim"), "claimName") for volume in entries(spec, "volumes"))
    return tuple(name for name in names if name)


def _image(spec: Document) -> str:
    containers = entries(spec, "containers")
    training = next((each for each in containers if text(each, "name") == TRAINING_CONTAINER), None)
    return text(training or (containers[0] if containers else {}), "image")
