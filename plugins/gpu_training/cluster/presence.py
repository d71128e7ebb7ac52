"""What a cluster has besides Kubernetes itself, as far as waiting trainings are concerned: Kueue, an autoscaler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_training.cluster.connection import Cluster, Document
from gpu_training.cluster.hidden import why
from gpu_training.core.autoscaler_status import SILENT_S, is_silent
from gpu_training.core.documents import child, entries, text
from gpu_training.core.errors import GpuTrainingError
from gpu_training.core.surroundings import Autoscaler

KUEUE: Final = "kueue.x-k8s.io"
VISIBILITY: Final = "visibility.kueue.x-k8s.io"
KARPENTER: Final = "karpenter.sh"
AUTOSCALER_STATUS: Final = "cluster-autoscaler-status"
"""ConfigMap in kube-system in which the Cluster Autoscaler says how it is.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What is there.

    :param groups: API group -> the version that the server prefers; None when they could not be read.
    :param hidden: what could not be looked for, and why.
    """

    groups: Mapping[str, str] | None = None
    autoscaler: Autoscaler = Autoscaler.UNKNOWN
    hidden: tuple[str, ...] = field(default=())

    def version(self, group: str) -> str:
        """Give the version of an API group; empty when there is none, or nobody knows."""
        return (self.groups or {}).get(group, "")


async def look_for(cluster: Cluster) -> Presence:
    """Give what there is, by two requests; never raises for what the API server says."""
    hidden: list[str] = []
    groups: dict[str, str] | None = None
    try:
        groups = await _groups(cluster)
    except GpuTrainingError as error:
        hidden.append(f"API groups: {why(error)}")
    if groups and KARPENTER in groups:
        return Presence(groups=groups, autoscaler=Autoscaler.KARPENTER, hidden=tuple(hidden))
    autoscaler = Autoscaler.UNKNOWN
    try:
        status = await _autoscaler_status(cluster)
        if status is not None and is_silent(status, cluster.clock.now()):
            hidden.append(f"autoscaler: the Cluster Autoscaler has written no status for {SILENT_S / 60:.0f} minutes")
        elif status is not None:
            autoscaler = Autoscaler.CLUSTER_AUTOSCALER
        elif groups is not None:  # that there is none is known only where Karpenter was looked for, too
            autoscaler = Autoscaler.NONE
    except GpuTrainingError as error:
        reason = f"the account may not read ConfigMap {AUTOSCALER_STATUS} in kube-system"
        hidden.append(f"autoscaler: {reason if getattr(error, 'status', None) == 403 else why(error)}")
    return Presence(groups=groups, autoscaler=autoscaler, hidden=tuple(hidden))


async def _groups(cluster: Cluster) -> dict[str, str]:
    document = (await cluster.request("GET", "/apis", doing="list the API groups", tries=1)).document
    return {
        text(group, "name"): text(child(group, "preferredVersion"), "version") for group in entries(document, "groups")
    }


async def _autoscaler_status(cluster: Cluster) -> Document | None:
    path = f"/api/v1/namespaces/kube-system/configmaps/{AUTOSCALER_STATUS}"
    try:
        return (
            await cluster.request("GET", path, doing=f"read ConfigMap kube-system/{AUTOSCALER_STATUS}", tries=1)
        ).document
    except GpuTrainingError as error:
        if getattr(error, "status", None) == 404:
            return None
        raise
