"""Which collections are around a training, where they are, and what is kept of an object of each.

Documents become values on arrival, and are dropped: no environment, argument or annotation of anybody's pod is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic
from urllib.parse import quote

from gpu_training.cluster.connection import Document
from gpu_training.cluster.event_index import Told, take_event
from gpu_training.cluster.jobs import JOB_UID_LABEL
from gpu_training.cluster.presence import KUEUE
from gpu_training.cluster.reflector import Kept
from gpu_training.core.documents import child, text
from gpu_training.core.surroundings import Limit, Node, Quota, Tenant, Workload
from gpu_training.core.surroundings_documents import limits_of, node_of, quota_of, tenant_of, workload_of

_ON_NODES: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Generic[Kept]):
    """A collection.

    :param word: what it holds, for people.
    :param take: gives the value of an object; None for one that is of no interest.
    :param page: objects of one answer to a list: what is read of it at once holds up whatever else the process does.
    """

    word: str
    path: str
    take: Callable[[Document], Kept | None]
    query: dict[str, str] = field(default_factory=dict)
    page: int = 500


NODES: Final[Place[Node]] = Place(word="nodes", path="/api/v1/nodes", take=node_of, page=250)

JobOf = Callable[[str], Document | None]
"""Gives the document of the Job of a UID, where it is known: its deadline bounds how long its pods hold GPUs."""


def all_tenants(job_of: JobOf) -> Place[Tenant]:
    return Place(
        word="pods of other namespaces", path="/api/v1/pods", take=partial(_take_tenant, job_of), query=_ON_NODES
    )


def tenants(namespace: str, job_of: JobOf) -> Place[Tenant]:
    return _in_namespace("pods", namespace, "pods", partial(_take_tenant, job_of), query=_ON_NODES)


def _take_tenant(job_of: JobOf, document: Document) -> Tenant | None:
    return tenant_of(document, job_of(text(child(child(document, "metadata"), "labels"), JOB_UID_LABEL)))


def events(namespace: str) -> Place[Told]:
    return _in_namespace("events", namespace, "events", take_event, page=1500)


def quotas(namespace: str) -> Place[Quota]:
    return _in_namespace("resource quotas", namespace, "resourcequotas", quota_of)


def limits(namespace: str) -> Place[tuple[Limit, ...]]:
    return _in_namespace("limit ranges", namespace, "limitranges", limits_of)


def workloads(namespace: str, version: str) -> Place[Workload]:
    """Give the place of Kueue's Workloads.

    :param version: of its API.
    """
    path = f"/apis/{KUEUE}/{version}/namespaces/{quote(namespace)}/workloads"
    return Place(word="Kueue workloads", path=path, take=workload_of)


def _in_namespace(
    word: str,
    namespace: str,
    plural: str,
    take: Callable[[Document], Kept | None],
    *,
    query: dict[str, str] | None = None,
    page: int = 500,
) -> Place[Kept]:
    path = f"/api/v1/namespaces/{quote(namespace)}/{plural}"
    return Place(word=word, path=path, take=take, query=query or {}, page=page)
