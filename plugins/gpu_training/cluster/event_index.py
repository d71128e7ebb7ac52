"""The Events of a namespace by what they are about: there may be tens of thousands, and each training asks for its
own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gpu_training.cluster.connection import Document
from gpu_training.core.surroundings import Autoscaler, Happening
from gpu_training.core.surroundings_documents import happening_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An Event, and the UID of its own object."""

    uid: str
    happening: Happening


def take_event(document: Document) -> Told:
    """Give what is kept of an Event."""
    return Told(uid=document["metadata"]["uid"], happening=happening_of(document))


class EventIndex:
    """Holds the Events that there are now.

    :ivar autoscaler: one that has said something; UNKNOWN when none has.
    """

    def __init__(self) -> None:
        self.autoscaler = Autoscaler.UNKNOWN
        self._groups: dict[str, dict[str, Happening]] = {}

    def add(self, told: Told) -> None:
        """Take an Event that is new or has changed."""
        happening = told.happening
        self._groups.setdefault(_group_of(happening), {})[told.uid] = happening
        for autoscaler in (Autoscaler.CLUSTER_AUTOSCALER, Autoscaler.KARPENTER):
            if happening.source.startswith(autoscaler):
                self.autoscaler = autoscaler

    def remove(self, told: Told) -> None:
        """Forget an Event that is gone."""
        name = _group_of(told.happening)
        group = self._groups.get(name, {})
        group.pop(told.uid, None)
        if not group:
            self._groups.pop(name, None)

    def about(self, uids: Collection[str], workloads: Collection[str]) -> tuple[Happening, ...]:
        """Give the Events about some Jobs and pods, about their workloads, and about whatever is of another kind.

        :param uids: of Jobs and pods.
        :param workloads: names of Kueue Workloads.
        """
        names = [*uids, *map(_workload, workloads), ""]
        return tuple(happening for name in names for happening in self._groups.get(name, {}).values())


def _group_of(happening: Happening) -> str:
    if happening.kind == "Workload":
        return _workload(happening.name)
    return happening.uid if happening.kind in ("Job", "Pod") else ""


def _workload(name: str) -> str:
    return f"Workload {name}"
