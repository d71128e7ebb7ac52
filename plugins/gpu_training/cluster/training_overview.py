"""The status of every training of a namespace, as one look at the cluster gives it: documents, ends of logs, and why it
waits. The number of requests grows with the trainings that run alone, whose logs tell how far they are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from gpu_training.cluster.connection import Cluster
from gpu_training.cluster.namespace_listing import end_of_log, look_at
from gpu_training.cluster.single_look import look_once
from gpu_training.core.decide import Policy
from gpu_training.core.errors import ClusterError
from gpu_training.core.phase import Phase
from gpu_training.core.pods import ContainerState, PodObservation
from gpu_training.core.status import Overview, TrainingStatus, in_order, named
from gpu_training.core.status_pending import explained, is_to_explain
from gpu_training.core.status_progress import with_progress
from gpu_training.core.status_reading import read_overview

_LOGS_AT_ONCE: Final = 8


async def overview_of(
    cluster: Cluster, namespace: str, policy: Policy, *, deployment: str | None = None, name: str | None = None
) -> Overview:
    """Give the trainings that live, whose Job is there, or that ended within a day.

    :param deployment: only that Airflow's; None for those of every one.
    :param name: only those of this model, or the one of this Job; None for all.
    :raises ClusterUnavailable: the API server can not be reached.
    :raises ClusterRejected: not even the Jobs may be listed.
    """
    listing = await look_at(cluster, namespace, deployment=deployment)
    overview = read_overview(listing, namespace=namespace, policy=policy, now=cluster.clock.now())
    shown = overview.trainings if name is None else named(overview.trainings, name)
    turns = asyncio.Semaphore(_LOGS_AT_ONCE)
    shown = tuple(await asyncio.gather(*(_with_progress(cluster, status, turns, overview.at) for status in shown)))
    if any(is_to_explain(status) for status in shown):
        around = await look_once(cluster, namespace, listing.jobs)
        shown = tuple(explained(status, around, cluster.clock.now()) for status in shown)
    return replace(overview, trainings=in_order(shown))


async def _with_progress(
    cluster: Cluster, status: TrainingStatus, turns: asyncio.Semaphore, now: float
) -> TrainingStatus:
    pod = _running(status)
    if pod is None:
        return status
    try:
        async with turns:
            log = await end_of_log(cluster, status.namespace, pod.name)
    except ClusterError as error:
        return replace(status, hidden=(*status.hidden, f"progress: {error}"))
    return with_progress(status, pod.name, log, now)


def _running(status: TrainingStatus) -> PodObservation | None:
    """Give the pod of a training that runs."""
    if status.phase != Phase.RUNNING or status.observation is None:
        return None
    running = [
        pod
        for pod in status.observation.pods
        if pod.training is not None and pod.training.state is ContainerState.RUNNING and not pod.ended and not pod.gone
    ]
    return running[-1] if running else None
