"""Gathers what there is to know of a cluster before its first training; it reads and tries, and creates nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from gpu_training.check_up.cases import Case, Sample
from gpu_training.check_up.trials import try_classes, try_job
from gpu_training.cluster.connection import Cluster, ClusterAddress
from gpu_training.cluster.jobs import list_pages
from gpu_training.cluster.presence import look_for
from gpu_training.core.cluster_facts import ClusterFacts, NamespaceFacts, TrainingFacts
from gpu_training.core.documents import child, entries, text
from gpu_training.core.errors import ClusterError, ConfigurationError
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.pod_demand import demand_of
from gpu_training.core.references import Kind, Reference, references_of
from gpu_training.core.rights import KUEUE_GROUP, Right, rights_for
from gpu_training.core.surroundings import Tenant
from gpu_training.core.surroundings_documents import limits_of, node_of, quota_of, tenant_of

_TRIES: Final = 2
_ANSWER_S: Final = 10.0
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_NOT_ASKED: Final = LookUp(answer=Answer.FAILED, said="it was not looked at")
_PATHS: Final[Mapping[Kind, str]] = {
    Kind.SERVICE_ACCOUNT: "/api/v1/namespaces/{namespace}/serviceaccounts/{name}",
    Kind.SECRET: "/api/v1/namespaces/{namespace}/secrets/{name}",
    Kind.CONFIG_MAP: "/api/v1/namespaces/{namespace}/configmaps/{name}",
    Kind.CLAIM: "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}",
    Kind.RUNTIME_CLASS: "/apis/node.k8s.io/v1/runtimeclasses/{name}",
    Kind.PRIORITY_CLASS: "/apis/scheduling.k8s.io/v1/priorityclasses/{name}",
    Kind.LOCAL_QUEUE: "/apis/kueue.x-k8s.io/{kueue}/namespaces/{namespace}/localqueues/{name}",
}


async def look_at_cluster(address: ClusterAddress, cases: Iterable[Case]) -> ClusterFacts:
    """Give what one cluster shows of the trainings of these models; whatever can not be seen is said, not raised."""
    async with Cluster(address) as cluster:
        try:
            version = await cluster.request(
                "GET", "/version", doing="ask for the version", tries=_TRIES, timeout=_ANSWER_S
            )
        except (ClusterError, ConfigurationError) as error:
            return ClusterFacts(
                where=cluster.where, trouble=str(error), node_look_up=_NOT_ASKED, tenant_look_up=_NOT_ASKED
            )
        skew = cluster.clock.now() - time.time()
        presence = await look_for(cluster)
        samples = {case.model.name: case.sample for case in cases if case.sample is not None}
        names = sorted({sample.spec.namespace for sample in samples.values()})
        served = tuple(presence.groups or ())
        namespaces = {name: await _namespace(cluster, name, served) for name in names}
        node_look_up, nodes = await _all(cluster, "/api/v1/nodes", "list nodes")
        tenant_look_up, tenants = await _tenants(cluster, names)
        kueue = presence.version(KUEUE_GROUP)
        return ClusterFacts(
            where=cluster.where,
            version=text(version.document, "gitVersion"),
            skew=skew,
            groups=served,
            autoscaler=presence.autoscaler,
            node_look_up=node_look_up,
            tenant_look_up=tenant_look_up,
            nodes=tuple(map(node_of, nodes)),
            tenants=tenants,
            namespaces=namespaces,
            trainings=tuple(
                [await _training(cluster, model, sample, namespaces, kueue) for model, sample in samples.items()]
            ),
        )


async def _namespace(cluster: Cluster, name: str, groups: tuple[str, ...]) -> NamespaceFacts:
    path = f"/api/v1/namespaces/{quote(name)}"
    rights = rights_for(groups)
    answers = await asyncio.gather(*(_may(cluster, right, name) for right in rights))
    quota_look_up, quotas = await _all(cluster, f"{path}/resourcequotas", f"list quotas of namespace {name}")
    limit_look_up, limits = await _all(cluster, f"{path}/limitranges", f"list LimitRanges of namespace {name}")
    return NamespaceFacts(
        name=name,
        look_up=await _one(cluster, path, f"read namespace {name}"),
        rights=dict(zip(rights, answers, strict=True)),
        quota_look_up=quota_look_up,
        limit_look_up=limit_look_up,
        quotas=tuple(map(quota_of, quotas)),
        limits=tuple(limit for document in limits for limit in limits_of(document)),
    )


async def _may(cluster: Cluster, right: Right, namespace: str) -> bool | None:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "namespace": "" if right.cluster_wide else right.namespace or namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "name": right.name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        reply = await cluster.request("POST", _REVIEWS, doing="ask for rights", body=review, tries=_TRIES)
    except ClusterError:
        return None
    return child(reply.document, "status").get("allowed") is True


async def _training(
    cluster: Cluster, model: str, sample: Sample, namespaces: Mapping[str, NamespaceFacts], kueue: str
) -> TrainingFacts:
    spec, job = sample.spec, sample.job
    namespace = namespaces[spec.namespace]
    references = references_of(spec, sample.classes)
    look_ups = {each: await _reference(cluster, each, spec.namespace, kueue) for each in references}
    unread = [each.name for each, look in look_ups.items() if each.kind is Kind.PRIORITY_CLASS and _is_hidden(look)]
    may_try = {right.objects: allowed for right, allowed in namespace.rights.items() if right.verb == "create"}
    trial = await try_job(cluster, job, of_pod=may_try.get("pods") is True)
    return TrainingFacts(
        model=model,
        namespace=spec.namespace,
        resources=spec.resources,
        demand=demand_of(job),
        last_demand=demand_of(sample.last_job) if sample.last_job is not None else None,
        references=look_ups,
        trial=trial,
        class_trials=await try_classes(cluster, job, [name for name in unread if name != spec.priority_class], trial),
    )


def _is_hidden(look_up: LookUp) -> bool:
    return look_up.answer in (Answer.FORBIDDEN, Answer.FAILED)


async def _reference(cluster: Cluster, reference: Reference, namespace: str, kueue: str) -> LookUp:
    if reference.kind is Kind.LOCAL_QUEUE and not kueue:
        return LookUp(answer=Answer.ABSENT, said="Kueue is not installed")
    path = _PATHS[reference.kind].format(namespace=quote(namespace), name=quote(reference.name), kueue=kueue)
    return await _one(cluster, path, f"read {reference.kind} {reference.name}", _KEEP.get(reference.kind, dict))


def _without_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Keep type and keys: what a Secret holds is nobody's business here."""
    return {"type": text(document, "type"), "data": dict.fromkeys(child(document, "data"))}


_KEEP: Final[Mapping[Kind, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    Kind.SECRET: _without_values,
    Kind.CONFIG_MAP: _without_values,
}


async def _tenants(cluster: Cluster, namespaces: Iterable[str]) -> tuple[LookUp, tuple[Tenant, ...]]:
    """Give what holds the nodes: pods of all namespaces, or of those that may be read."""
    query = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
    look_up, pods = await _all(cluster, "/api/v1/pods", "list the pods of all namespaces", query)
    if not look_up.found:
        for name in namespaces:
            path = f"/api/v1/namespaces/{quote(name)}/pods"
            pods += (await _all(cluster, path, f"list the pods of namespace {name}", query))[1]
    return look_up, tuple(tenant for tenant in map(tenant_of, pods) if tenant is not None)


async def _one(
    cluster: Cluster, path: str, doing: str, keep: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
) -> LookUp:
    try:
        reply = await cluster.request("GET", path, doing=doing, tries=_TRIES, timeout=_ANSWER_S)
    except ClusterError as error:
        return _not_found(error)
    return LookUp(answer=Answer.FOUND, items=(keep(reply.document),))


async def _all(
    cluster: Cluster, path: str, doing: str, query: Mapping[str, str] | None = None
) -> tuple[LookUp, list[Mapping[str, Any]]]:
    items: list[Mapping[str, Any]] = []
    try:
        async for page in list_pages(cluster, path, doing=doing, query=query or {}, tries=_TRIES):
            items += entries(page, "items")
    except ClusterError as error:
        return _not_found(error), []
    return LookUp(answer=Answer.FOUND), items


def _not_found(error: ClusterError) -> LookUp:
    answers = {404: Answer.ABSENT, 403: Answer.FORBIDDEN}
    return LookUp(answer=answers.get(error.status or 0, Answer.FAILED), said=str(error))
