"""What is around a namespace's trainings, looked at once: for a command line that asks and goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from gpu_training.cluster import collections_around
from gpu_training.cluster.collections_around import Place
from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.hidden import why
from gpu_training.cluster.jobs import list_pages
from gpu_training.cluster.presence import KUEUE, VISIBILITY, Presence, look_for
from gpu_training.cluster.queue_positions import hidden_positions, read_positions
from gpu_training.cluster.reflector import is_refusal
from gpu_training.core.documents import child, text
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.surroundings import Surroundings, Tenant, Workload

Value = TypeVar("Value")


async def look_once(cluster: Cluster, namespace: str, jobs: Iterable[Document]) -> Surroundings:
    """Give what is around the trainings of a namespace, by lists alone. What can not be read is in `hidden`.

    :param jobs: of the namespace, as far as they are known: their deadlines bound how long their pods hold GPUs.
    """
    hidden: list[str] = []
    presence = await look_for(cluster)
    known = {text(child(job, "metadata"), "uid"): job for job in jobs}
    look = partial(_look_at, cluster, hidden)
    nodes, (tenants, everywhere), events, quotas, limits, workloads = await asyncio.gather(
        look(collections_around.NODES),
        _tenants(cluster, hidden, namespace, known),
        look(collections_around.events(namespace)),
        look(collections_around.quotas(namespace)),
        look(collections_around.limits(namespace)),
        _workloads(cluster, hidden, namespace, presence),
    )
    return Surroundings(
        nodes=nodes,
        tenants=tenants,
        tenants_everywhere=everywhere or tenants is None,
        events=None if events is None else tuple(told.happening for told in events),
        quotas=quotas,
        limits=None if limits is None else tuple(limit for rules in limits for limit in rules),
        workloads=workloads,
        autoscaler=presence.autoscaler,
        hidden=(*hidden, *presence.hidden),
    )


async def _look_at(cluster: Cluster, hidden: list[str], place: Place[Value]) -> tuple[Value, ...] | None:
    values, error = await _list(cluster, place)
    if error is not None:
        hidden.append(f"{place.word}: {why(error)}")
    return values


async def _list(cluster: Cluster, place: Place[Value]) -> tuple[tuple[Value, ...] | None, GpuTrainingError | None]:
    query = {"limit": str(place.page), **place.query}
    found = []
    try:
        async for page in list_pages(cluster, place.path, doing=f"list {place.path}", query=query):
            found += [value for value in map(place.take, page["items"]) if value is not None]
    except GpuTrainingError as error:
        return None, error
    return tuple(found), None


async def _tenants(
    cluster: Cluster, hidden: list[str], namespace: str, jobs: Mapping[str, Document]
) -> tuple[tuple[Tenant, ...] | None, bool]:
    """Give who is on nodes, and whether that is everybody."""
    everywhere = collections_around.all_tenants(jobs.get)
    values, error = await _list(cluster, everywhere)
    if error is not None:
        hidden.append(f"{everywhere.word}: {why(error)}")
        if is_refusal(error):
            return await _look_at(cluster, hidden, collections_around.tenants(namespace, jobs.get)), False
    return values, True


async def _workloads(
    cluster: Cluster, hidden: list[str], namespace: str, presence: Presence
) -> tuple[Workload, ...] | None:
    version = presence.version(KUEUE)
    if not version:
        return None if presence.groups is None else ()
    workloads = await _look_at(cluster, hidden, collections_around.workloads(namespace, version))
    queues = sorted({each.queue for each in workloads or () if each.waits and each.active and each.queue})
    positions: dict[str, int] = {}
    try:
        for queue in queues if presence.version(VISIBILITY) else ():
            positions |= await read_positions(cluster, namespace, presence.version(VISIBILITY), queue)
    except GpuTrainingError as error:
        hidden.append(hidden_positions(error))
    return None if workloads is None else tuple(replace(each, position=positions.get(each.name)) for each in workloads)
