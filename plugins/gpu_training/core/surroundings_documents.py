"""Raw documents of nodes, pods, Events, quotas, limits and Kueue's Workloads -> the values of the surroundings.

Total, as :mod:`gpu_training.core.observation` is: what is absent or of another shape reads as nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from gpu_training.core.documents import Document, child, entries, parse_time, text, texts, whole
from gpu_training.core.naming import LABEL_MODEL
from gpu_training.core.pod_demand import amounts_of, requests_of
from gpu_training.core.surroundings import (
    Happening,
    Limit,
    Node,
    QueueCondition,
    Quota,
    Taint,
    Tenant,
    Workload,
)

_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")
_JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
# client-go writes one event for many of one reason that differ in their words: the last of these words follow.
# https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go
_COMBINED: Final = "(combined from similar events): "


def node_of(document: object) -> Node:
    """Give the value of a Node."""
    metadata, spec, status = child(document, "metadata"), child(document, "spec"), child(document, "status")
    conditions = {text(entry, "type"): text(entry, "status") for entry in entries(status, "conditions")}
    ready = conditions.get("Ready", "")
    return Node(
        name=text(metadata, "name"),
        labels=texts(metadata, "labels"),
        taints=_taints(
            tuple(
                (text(taint, "key"), text(taint, "value"), text(taint, "effect")) for taint in entries(spec, "taints")
            )
        ),
        cordoned=spec.get("unschedulable") is True,
        # `Unknown` is what the node controller writes of a kubelet that it has lost.
        ready=ready == "True" if ready else None,
        pressures=tuple(name for name in _PRESSURES if conditions.get(name) == "True"),
        allocatable=amounts_of(child(status, "allocatable")),
        capacity=amounts_of(child(status, "capacity")),
        created_at=parse_time(metadata.get("creationTimestamp")),
    )


@lru_cache(maxsize=256)
def _taints(taints: tuple[tuple[str, str, str], ...]) -> tuple[Taint, ...]:
    """Give the same tuple for the same taints: most nodes of a cluster have one of a few sets."""
    return tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in taints)


def tenant_of(document: object, job: object = None) -> Tenant | None:
    """Give what a Pod holds on its node, or is about to hold on the node that is meant for it; None for one that has
    ended, or that no node is meant for.

    :param job: the Job that made it, where it is known: its deadline bounds the pod's end.
    """
    metadata, spec, status = child(document, "metadata"), child(document, "spec"), child(document, "status")
    bound = text(spec, "nodeName")
    node = bound or text(status, "nominatedNodeName")
    if not node or text(status, "phase") in ("Succeeded", "Failed"):
        return None
    labels = child(metadata, "labels")
    return Tenant(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        node=node,
        requests=requests_of(spec),
        priority=whole(spec, "priority") or 0,
        job=_job_name(metadata),
        model=text(labels, LABEL_MODEL),
        ends_by=_ends_by(metadata, spec, status, job),
        nominated=not bound,
    )


def _job_name(metadata: Document) -> str:
    for owner in entries(metadata, "ownerReferences"):
        if owner.get("controller") is True:
            return text(owner, "name") if text(owner, "kind") == "Job" else ""
    return text(child(metadata, "labels"), _JOB_NAME_LABEL)


def _ends_by(metadata: Document, spec: Document, status: Document, job: object) -> float | None:
    bounds = [
        # It includes the time that the pod is given to end: it is when the kubelet kills.
        parse_time(metadata.get("deletionTimestamp")),
        _deadline(parse_time(status.get("startTime")), whole(spec, "activeDeadlineSeconds")),
        _deadline(
            parse_time(child(job, "status").get("startTime")), whole(child(job, "spec"), "activeDeadlineSeconds")
        ),
    ]
    return min((bound for bound in bounds if bound is not None), default=None)


def _deadline(start: float | None, seconds: int | None) -> float | None:
    return None if start is None or seconds is None or seconds < 0 else start + seconds


def happening_of(document: object) -> Happening:
    """Give the value of an Event, of the core API or of events.k8s.io."""
    metadata = child(document, "metadata")
    body: Document = document if isinstance(document, Mapping) else {}
    about = child(body, "involvedObject") or child(body, "regarding")
    series = child(body, "series")
    source = child(body, "source") or child(body, "deprecatedSource")
    first = _first_time(body, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    last = _first_time(series, "lastObservedTime") or _first_time(
        body, "lastTimestamp", "deprecatedLastTimestamp", "eventTime"
    )
    made = parse_time(metadata.get("creationTimestamp"))
    counts = (whole(series, "count"), whole(body, "count"), whole(body, "deprecatedCount"))
    return Happening(
        kind=text(about, "kind"),
        name=text(about, "name"),
        uid=text(about, "uid"),
        reason=text(body, "reason"),
        message=(text(body, "message") or text(body, "note")).removeprefix(_COMBINED),
        source=text(source, "component") or text(body, "reportingComponent") or text(body, "reportingController"),
        warning=text(body, "type") == "Warning",
        first_at=first if first is not None else made,
        last_at=last if last is not None else first if first is not None else made,
        count=max(1, next((count for count in counts if count is not None), 1)),
    )


def _first_time(body: Document, *names: str) -> float | None:
    times = (parse_time(body.get(name)) for name in names)
    return next((time for time in times if time is not None), None)


def quota_of(document: object) -> Quota:
    """Give the value of a ResourceQuota."""
    status = child(document, "status")
    return Quota(
        name=text(child(document, "metadata"), "name"),
        hard=texts(status, "hard") or texts(child(document, "spec"), "hard"),
        used=texts(status, "used"),
    )


def limits_of(document: object) -> tuple[Limit, ...]:
    """Give the rules of a LimitRange."""
    name = text(child(document, "metadata"), "name")
    return tuple(
        Limit(name=name, kind=text(rule, "type"), minimum=texts(rule, "min"), maximum=texts(rule, "max"))
        for rule in entries(child(document, "spec"), "limits")
    )


def workload_of(document: object) -> Workload:
    """Give the value of a Kueue Workload. Its position in the queue is told elsewhere: by Kueue's visibility API."""
    metadata, spec, status = child(document, "metadata"), child(document, "spec"), child(document, "status")
    owners = (owner for owner in entries(metadata, "ownerReferences") if text(owner, "kind") == "Job")
    return Workload(
        name=text(metadata, "name"),
        job_uid=next((text(owner, "uid") for owner in owners), ""),
        queue=text(spec, "queueName"),
        active=spec.get("active") is not False,
        priority=whole(spec, "priority") or 0,
        conditions=tuple(
            QueueCondition(
                type=text(entry, "type"),
                holds=entry.get("status") == "True",
                reason=text(entry, "reason"),
                message=text(entry, "message"),
                changed_at=parse_time(entry.get("lastTransitionTime")),
            )
            for entry in entries(status, "conditions")
        ),
    )
