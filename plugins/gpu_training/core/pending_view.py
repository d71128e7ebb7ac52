"""What one diagnosis looks at: a training, its demand and what is around it, worked out as far as it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpu_training.core.fitting import Survey, count_nodes
from gpu_training.core.node_index import NodeIndex, index_of
from gpu_training.core.observation import JobObservation, Observation
from gpu_training.core.pending_events import Events, events_of
from gpu_training.core.pod_demand import Demand
from gpu_training.core.pods import PodObservation
from gpu_training.core.surroundings import Surroundings


@dataclass(frozen=True, kw_only=True)
class View:
    """A training and its surroundings at one moment.

    :param job: of the observation.
    :param demand: of one of its pods; None when it is not known.
    :param now: seconds since 1970.
    """

    job: JobObservation
    observation: Observation
    demand: Demand | None
    around: Surroundings
    now: float

    @cached_property
    def events(self) -> Events:
        return events_of(self.around.events)

    @cached_property
    def index(self) -> NodeIndex | None:
        """The nodes; None when they could not be read."""
        return None if self.around.nodes is None else index_of(self.around.nodes, self.around.tenants)

    @cached_property
    def survey(self) -> Survey | None:
        """What keeps a pod of the training off each node; None when nodes or demand are not known."""
        if self.index is None or self.demand is None:
            return None
        return count_nodes(self.index, self.demand, self.own, all_seen=self.around.tenants_everywhere)

    @cached_property
    def own(self) -> frozenset[tuple[str, str]]:
        """Namespaces and names of the training's pods."""
        return frozenset((self.job.namespace, pod.name) for pod in self.observation.pods)

    @cached_property
    def live(self) -> tuple[PodObservation, ...]:
        """Pods that have not ended."""
        return tuple(pod for pod in self.observation.pods if not pod.ended and not pod.gone)

    def older_than(self, since: float | None, seconds: float) -> bool:
        """Whether so many seconds have passed; False when it is not known since when."""
        return since is not None and self.now - since > seconds
