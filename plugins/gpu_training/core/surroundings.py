"""What is around a training that waits: nodes, who holds them, events, quotas, queues. Raw documents -> frozen values.

Total, as :mod:`gpu_training.core.observation` is: what is absent or of another shape reads as nothing. A collection
that is None could not be read, and `hidden` says why; one that is empty was read and holds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    key: str
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node.

    :param ready: None when it has not said.
    :param pressures: types of the pressure conditions that hold (`MemoryPressure`, `DiskPressure`, `PIDPressure`).
    :param allocatable: of each resource, in its base unit.
    :param capacity: of each resource, in its base unit.
    :param created_at: when it joined, in seconds since 1970; None when it has not said.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool | None = None
    pressures: tuple[str, ...] = ()
    allocatable: Mapping[str, Fraction] = field(default_factory=dict)
    capacity: Mapping[str, Fraction] = field(default_factory=dict)
    created_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod on a node, and what it holds there.

    :param requests: of each resource, in its base unit.
    :param job: name of the Job that made it; empty when none did.
    :param model: of one of our trainings; empty for any other.
    :param ends_by: when it has to end at the latest, by its own or its Job's deadline; None when nothing bounds it.
    :param nominated: whether the node is only meant for it, once others have ended there.
    """

    namespace: str
    name: str
    node: str
    requests: Mapping[str, Fraction] = field(default_factory=dict)
    priority: int = 0
    job: str = ""
    model: str = ""
    ends_by: float | None = None
    nominated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One Event of Kubernetes.

    :param kind: of the object it is about: `Job`, `Pod`, `Workload`, …
    :param source: the component that says so.
    :param first_at: seconds since 1970.
    :param last_at: seconds since 1970.
    """

    kind: str
    name: str
    uid: str
    reason: str
    message: str
    source: str = ""
    warning: bool = False
    first_at: float | None = None
    last_at: float | None = None
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One ResourceQuota; the texts are Kubernetes quantities."""

    name: str
    hard: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One rule of a LimitRange; the texts are Kubernetes quantities.

    :param kind: `Container`, `Pod`, …
    """

    name: str
    kind: str
    minimum: Mapping[str, str] = field(default_factory=dict)
    maximum: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCondition:
    """A condition of a Kueue Workload, whether it holds or not."""

    type: str
    holds: bool
    reason: str = ""
    message: str = ""
    changed_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One Kueue Workload.

    :param job_uid: of the Job that it stands for; empty for none.
    :param queue: LocalQueue that it waits in.
    :param position: in the LocalQueue, from 0; None when it is not known.
    """

    name: str
    job_uid: str
    queue: str
    active: bool = True
    priority: int = 0
    conditions: tuple[QueueCondition, ...] = ()
    position: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it has no place in its queue's quota yet."""
        return not any(c.holds and c.type in ("QuotaReserved", "Finished") for c in self.conditions)


class Autoscaler(StrEnum):
    """What adds nodes to the cluster, by what it leaves there. Stable names."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"
    NONE = "none"
    """It was looked for, and there is none."""
    UNKNOWN = "unknown"
    """It could not be looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is around the trainings of a namespace now.

    What is worked out of `nodes`, `tenants` and `events` is kept for as long as they are the same tuples: whoever looks
    around gives the same ones until something has changed.

    :param events: of the namespace.
    :param tenants: pods that are on nodes, of every namespace that could be read.
    :param tenants_everywhere: whether that was every namespace there is: else more may be held than is known.
    :param hidden: what could not be read and why, in words, such as `nodes: the account may not list them`.
    """

    nodes: tuple[Node, ...] | None = None
    tenants: tuple[Tenant, ...] | None = None
    tenants_everywhere: bool = True
    events: tuple[Happening, ...] | None = None
    quotas: tuple[Quota, ...] | None = None
    limits: tuple[Limit, ...] | None = None
    workloads: tuple[Workload, ...] | None = None
    autoscaler: Autoscaler = Autoscaler.UNKNOWN
    hidden: tuple[str, ...] = ()
