"""What was gathered of a cluster before its first training; :mod:`gpu_training.core.check_cluster` judges it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_training.core.look_ups import LookUp
from gpu_training.core.pod_demand import Demand
from gpu_training.core.references import Reference
from gpu_training.core.resources import Resources
from gpu_training.core.rights import Right
from gpu_training.core.surroundings import Autoscaler, Limit, Node, Quota, Tenant
from gpu_training.core.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFacts:
    """One namespace, as the connection's account sees it.

    :param look_up: of the namespace itself.
    :param rights: what the server says of each; None where it gave no answer.
    :param quota_look_up: how the list of quotas was answered; `limit_look_up` likewise.
    """

    name: str
    look_up: LookUp
    rights: Mapping[Right, bool | None]
    quota_look_up: LookUp
    limit_look_up: LookUp
    quotas: tuple[Quota, ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """One model's training.

    :param last_demand: of the last attempt, where that goes to other nodes.
    :param references: what the spec names, in the order in which it is told.
    :param trial: of the Job and its pod.
    :param class_trials: of pods with another PriorityClass, by its name, where that could not be read.
    """

    model: str
    namespace: str
    resources: Resources
    demand: Demand
    last_demand: Demand | None = None
    references: Mapping[Reference, LookUp]
    trial: Trial
    class_trials: Mapping[str, Trial] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """One cluster.

    :param where: connection and host.
    :param trouble: why nothing more is known; empty where it answered.
    :param version: such as `v1.37.2`.
    :param skew: seconds by which this machine's clock is behind the API server's.
    :param groups: API groups that it serves.
    :param node_look_up: how the list of nodes was answered.
    :param tenant_look_up: how the list of all pods was answered.
    """

    where: str
    trouble: str = ""
    version: str = ""
    skew: float = 0.0
    groups: tuple[str, ...] = ()
    autoscaler: Autoscaler = Autoscaler.UNKNOWN
    node_look_up: LookUp
    tenant_look_up: LookUp
    nodes: tuple[Node, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    namespaces: Mapping[str, NamespaceFacts] = field(default_factory=dict)
    trainings: tuple[TrainingFacts, ...] = ()
