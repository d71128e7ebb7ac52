"""The Events of a namespace by what they are about: there may be tens of thousands, and each training asks for its
own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from gpu_training.cluster.connection import Document
from gpu_training.core.surroundings import Autoscaler, Happening
from gpu_training.core.surroundings_documents import happening_of

_LONGEST_MESSAGE: Final = 4096
"""Kubernetes' own are cut at 1024."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An Event, and the UID of its own object."""

    uid: str
    happening: Happening


def take_event(document: Document) -> Told:
    """Give what is kept of an Event."""
    happening = happening_of(document)
    if len(happening.message) > _LONGEST_MESSAGE:
        happening = replace(happening, message=happening.message[:_LONGEST_MESSAGE])
    return Told(uid=document["metadata"]["uid"], happening=happening)


class EventIndex:
    """Holds the Events that there are now.

    :ivar autoscaler: one that has said something; UNKNOWN when none has.
    """

    def __init__(self) -> None:
        self.autoscaler = Autoscaler.UNKNOWN
        self._everything: tuple[Happening, ...] | None = None
        self._groups: dict[str, dict[str, Happening]] = {}

    def add(self, told: Told) -> None:
        """Take an Event that is new or has changed."""
        happening = told.happening
        self._everything = None
        self._groups.setdefault(_group_of(happening), {})[told.uid] = happening
        for autoscaler in (Autoscaler.CLUSTER_AUTOSCALER, Autoscaler.KARPENTER):
            if happening.source.startswith(autoscaler):
                self.autoscaler = autoscaler

    def remove(self, told: Told) -> None:
        """Forget an Event that is gone."""
        self._everything = None
        name = _group_of(told.happening)
        group = self._groups.get(name, {})
        group.pop(told.uid, None)
        if not group:
            self._groups.pop(name, None)

    def everything(self) -> tuple[Happening, ...]:
        """Give all Events; the same tuple until one has changed."""
        if self._everything is None:
            self._everything = tuple(each for group in self._groups.values() for each in group.values())
        return self._everything

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
