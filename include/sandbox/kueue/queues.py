"""What Kueue shares out, to whom, and who goes first: documents of its API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sandbox.errors import SandboxError
from sandbox.status import GPU_RESOURCE

VERSION = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

Document = dict[str, Any]


class Preempt(StrEnum):
    """Which admitted workloads a waiting one may push out."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    ANY = "Any"
    """Only among those that borrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A sort of nodes.

    :param node_labels: which nodes; a workload's pods get them as node selector.
    """

    name: str = "gpu"
    node_labels: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> Document:
        """Give the ResourceFlavor."""
        return _document("ResourceFlavor", {"name": self.name}, {"nodeLabels": dict(self.node_labels)})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueue:
    """A quota of one flavor, open to every namespace that has a local queue to it.

    :param gpus: its own.
    :param cpu: CPU and `memory` are counted, too, by default so many that GPUs are what is short.
    :param cohort: queues of one cohort lend each other what they do not use; None: of none.
    :param borrows: at most so many GPUs of the cohort's; None: all.
    :param lends: at most so many of its GPUs; None: all.
    :param preempts: by priority among its own workloads.
    :param reclaims: pushes out workloads of others that borrow what is its own.
    """

    name: str
    gpus: int
    cpu: str = "10000"
    memory: str = "100Ti"
    flavor: str = "gpu"
    cohort: str | None = None
    borrows: int | None = None
    lends: int | None = None
    preempts: Preempt = Preempt.NEVER
    reclaims: Preempt = Preempt.NEVER

    def __post_init__(self) -> None:
        if self.preempts is Preempt.ANY:
            raise SandboxError("preempts is Any: a queue pushes out its own workloads by priority only, or never")
        if self.cohort is None and (self.borrows is not None or self.lends is not None):
            raise SandboxError(f"cluster queue {self.name} borrows or lends and has no cohort: name one")

    def document(self) -> Document:
        """Give the ClusterQueue."""
        limits = {"borrowingLimit": self.borrows, "lendingLimit": self.lends}
        gpus = {"name": GPU_RESOURCE, "nominalQuota": str(self.gpus)}
        resources = [
            {"name": "cpu", "nominalQuota": self.cpu},
            {"name": "memory", "nominalQuota": self.memory},
            gpus | {name: str(limit) for name, limit in limits.items() if limit is not None},
        ]
        group = {
            "coveredResources": [resource["name"] for resource in resources],
            "flavors": [{"name": self.flavor, "resources": resources}],
        }
        spec: Document = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "preemption": {"withinClusterQueue": str(self.preempts), "reclaimWithinCohort": str(self.reclaims)},
        }
        return _document(
            "ClusterQueue", {"name": self.name}, spec | ({"cohortName": self.cohort} if self.cohort else {})
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A namespace's way to a cluster queue; a Job names it by the label :data:`QUEUE_LABEL`."""

    name: str
    namespace: str
    cluster_queue: str

    def document(self) -> Document:
        """Give the LocalQueue."""
        metadata = {"name": self.name, "namespace": self.namespace}
        return _document("LocalQueue", metadata, {"clusterQueue": self.cluster_queue})


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """A priority of workloads, that of their pods apart; a Job names it by the label :data:`PRIORITY_LABEL`."""

    name: str
    value: int

    def document(self) -> Document:
        """Give the WorkloadPriorityClass."""
        document = _document("WorkloadPriorityClass", {"name": self.name}, {})
        del document["spec"]
        return document | {"value": self.value}


def _document(kind: str, metadata: Document, spec: Document) -> Document:
    return {"apiVersion": VERSION, "kind": kind, "metadata": metadata, "spec": spec}
