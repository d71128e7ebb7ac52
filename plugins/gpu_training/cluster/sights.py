"""Everything around the trainings of a namespace, watched for as long as somebody looks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gpu_training.cluster import collections_around
from gpu_training.cluster.collections_around import JobOf
from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.event_index import EventIndex, Told
from gpu_training.cluster.mirror import Mirror
from gpu_training.cluster.presence import KUEUE, VISIBILITY, Presence, look_for
from gpu_training.cluster.queue_positions import QueuePositions
from gpu_training.core.surroundings import Autoscaler, Happening, Node, Surroundings, Tenant, Workload

log = logging.getLogger(__name__)

PRESENCE_S: Final = 300.0
_PRESENCE_AGAIN_S: Final = 15.0


class Sights:
    """Watches all collections that are around trainings.

    :param job_of: gives the document of one of our Jobs by its UID.
    :param told: called with the UID of a Job or pod of which something is new: an Event, its workload, its position.
    :param stirred: called when something is new that may concern everybody: a node, a collection that is known now.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        *,
        job_of: JobOf,
        told: Callable[[str], None],
        stirred: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._told = told
        self._stirred = stirred
        self._index = EventIndex()
        self._presence: Presence | None = None
        self._events = Mirror(
            cluster,
            collections_around.events(namespace),
            changed=self._on_event,
            removed=self._index.remove,
            stirred=stirred,
        )
        self._nodes = Mirror(
            cluster, collections_around.NODES, changed=self._on_node, removed=self._on_node, stirred=stirred
        )
        self._all_tenants, self._own_tenants = (
            Mirror(cluster, place, changed=self._on_tenant, removed=self._on_tenant, stirred=stirred)
            for place in (collections_around.all_tenants(job_of), collections_around.tenants(namespace, job_of))
        )
        self._quotas = Mirror(cluster, collections_around.quotas(namespace), stirred=stirred)
        self._limits = Mirror(cluster, collections_around.limits(namespace), stirred=stirred)
        self._workloads: Mirror[Workload] | None = None
        self._positions = QueuePositions(cluster, namespace, self._visibility, self._queues, self._tell_of)
        self._placed = _Placed(workloads=None, positions={}, by_job={})

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in (self._events, self._nodes, self._all_tenants, self._quotas, self._limits):
                tasks.create_task(mirror.run())
            tasks.create_task(self._see_own_tenants())
            tasks.create_task(self._see_presence(tasks))

    @property
    def is_settled(self) -> bool:
        """Whether everything was looked at, or refused, once."""
        mirrors: list[Mirror[Any]] = [self._events, self._nodes, self._all_tenants, self._quotas, self._limits]
        if self._all_tenants.is_refused.is_set():
            mirrors.append(self._own_tenants)
        if self._workloads is not None:
            mirrors.append(self._workloads)
        return self._presence is not None and all(mirror.answered.is_set() for mirror in mirrors)

    def around(self, uids: Collection[str] | None) -> Surroundings:
        """Give what is known now.

        :param uids: of Jobs and pods whose Events are wanted; None wants all.
        """
        presence = self._presence or Presence(hidden=("autoscaler and Kueue: not looked at yet",))
        everybody, own, limits = self._all_tenants.values, self._own_tenants.values, self._limits.values
        return Surroundings(
            nodes=self._nodes.values,
            tenants=everybody if everybody is not None else own,
            tenants_everywhere=everybody is not None or own is None,
            events=self._happenings(uids),
            quotas=self._quotas.values,
            limits=None if limits is None else tuple(limit for rules in limits for limit in rules),
            workloads=self._place().values if self._workloads is not None else _none_of(presence),
            autoscaler=self._autoscaler(presence),
            hidden=(*self._hidden(), *presence.hidden),
        )

    def _hidden(self) -> list[str]:
        mirrors: list[Mirror[Any] | None] = [
            self._nodes,
            self._all_tenants,
            self._events,
            self._quotas,
            self._limits,
            self._workloads,
        ]
        if self._all_tenants.is_refused.is_set():
            mirrors.insert(2, self._own_tenants)
        found = [mirror.hidden for mirror in mirrors if mirror is not None]
        return [why for why in (*found, self._positions.hidden) if why is not None]

    def _autoscaler(self, presence: Presence) -> Autoscaler:
        """Give the one that was found, or else one that was heard: a managed one leaves nothing else behind."""
        found, heard = presence.autoscaler, self._index.autoscaler
        return heard if found in (Autoscaler.UNKNOWN, Autoscaler.NONE) and heard is not Autoscaler.UNKNOWN else found

    def _happenings(self, uids: Collection[str] | None) -> tuple[Happening, ...] | None:
        if not self._events.is_known:
            return None
        if uids is None:
            return self._index.everything()
        by_job = self._place().by_job
        return self._index.about(uids, [by_job[uid].name for uid in uids if uid in by_job])

    def _place(self) -> _Placed:
        """Give the workloads with their positions, put together anew only when one of both has changed."""
        workloads, positions = self._workloads.values if self._workloads is not None else None, self._positions.known
        if self._placed.workloads is not workloads or self._placed.positions is not positions:
            values = tuple(replace(each, position=positions.get(each.name)) for each in workloads or ())
            by_job = {each.job_uid: each for each in values if each.job_uid}
            self._placed = _Placed(
                workloads=workloads, positions=positions, by_job=by_job, values=None if workloads is None else values
            )
        return self._placed

    def _on_event(self, told: Told) -> None:
        self._index.add(told)
        if not self._events.is_listed:
            return
        happening = told.happening
        if happening.kind == "Workload":
            self._tell_of([happening.name])
        else:
            self._told(happening.uid)

    def _on_node(self, _: Node) -> None:
        if self._nodes.is_listed:
            self._stirred()

    def _on_tenant(self, _: Tenant) -> None:
        if self._all_tenants.is_listed or self._own_tenants.is_listed:
            self._stirred()

    def _on_workload(self, workload: Workload) -> None:
        self._positions.look()
        if self._workloads is not None and self._workloads.is_listed:
            self._told(workload.job_uid)

    def _tell_of(self, names: Collection[str]) -> None:
        for workload in self._place().by_job.values():
            if workload.name in names:
                self._told(workload.job_uid)

    async def _see_own_tenants(self) -> None:
        await self._all_tenants.is_refused.wait()
        await self._own_tenants.run()

    async def _see_presence(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            try:
                self._presence = await look_for(self._cluster)
                self._see_kueue(self._presence, tasks)
            except Exception:  # of whatever kind: nobody would notice that this loop had ended
                log.exception("the look for Kueue and autoscalers broke in a way that is not foreseen")
            self._stirred()
            known = self._presence is not None and self._presence.groups is not None
            await asyncio.sleep(PRESENCE_S if known else _PRESENCE_AGAIN_S)

    def _see_kueue(self, presence: Presence, tasks: asyncio.TaskGroup) -> None:
        version = presence.version(KUEUE)
        if version and self._workloads is None:
            self._workloads = Mirror(
                self._cluster,
                collections_around.workloads(self._namespace, version),
                changed=self._on_workload,
                removed=self._on_workload,
                stirred=self._stirred,
            )
            tasks.create_task(self._workloads.run())
            tasks.create_task(self._positions.run())

    def _visibility(self) -> str:
        return self._presence.version(VISIBILITY) if self._presence is not None else ""

    def _queues(self) -> set[str]:
        workloads = self._workloads.values if self._workloads is not None else None
        return {each.queue for each in workloads or () if each.waits and each.active and each.queue}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    workloads: tuple[Workload, ...] | None
    positions: Mapping[str, int]
    by_job: Mapping[str, Workload]
    values: tuple[Workload, ...] | None = None


def _none_of(presence: Presence) -> tuple[Workload, ...] | None:
    """Give no workloads where there is no Kueue, None where nobody knows."""
    return None if presence.groups is None else ()
