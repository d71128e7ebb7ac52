"""What is around a training that waits, as Kubernetes and Kueue give it, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.unit.core.kubernetes_documents import JOB_UID, NAMESPACE, Document, at, condition, job, moment, pod

from gpu_training.core.observation import observe
from gpu_training.core.pending import diagnose
from gpu_training.core.pending_cause import CURES, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.pod_demand import demand_of
from gpu_training.core.pods import ContainerState
from gpu_training.core.surroundings import Autoscaler, Surroundings
from gpu_training.core.surroundings_documents import (
    happening_of,
    limits_of,
    node_of,
    quota_of,
    tenant_of,
    workload_of,
)

GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
GPU_TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
DEDICATED = {"key": "dedicated", "value": "ingest", "effect": "NoSchedule"}
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
TAKEN = f"0/1 nodes are available: 1 Insufficient {GPU}. {NO_VICTIMS}"
TOO_FEW = f"0/1 nodes are available: 1 Insufficient {GPU}. {NOT_HELPFUL}"
TAINTED = f"0/1 nodes are available: 1 node(s) had untolerated taint(s). {NOT_HELPFUL}"
UNMATCHED = f"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. {NOT_HELPFUL}"


def node(
    name: str = "g5-1",
    *,
    gpus: int = 4,
    capacity: int | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: str = "True",
    cordoned: bool = False,
    pressure: str = "",
    memory: str = "64Gi",
    pods: str = "110",
    joined: int | None = None,
) -> Document:
    """Give a Node.

    :param gpus: that it offers; 0: it does not name the resource.
    :param capacity: GPUs that it has; as many as it offers by default.
    :param joined: when it joined; None: long ago.
    """
    has = gpus if capacity is None else capacity
    common = {"cpu": "16", "memory": memory, "ephemeral-storage": "100Gi", "pods": pods}
    pressures = [condition(pressure, reason="KubeletHasPressure")] if pressure else []
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "creationTimestamp": "2026-11-01T00:00:00Z" if joined is None else at(joined),
        },
        "spec": {"taints": [dict(taint) for taint in taints], **({"unschedulable": True} if cordoned else {})},
        "status": {
            "allocatable": {**common, **({GPU: str(gpus)} if gpus else {})},
            "capacity": {**common, **({GPU: str(has)} if has else {})},
            "conditions": [condition("Ready", status=ready), *pressures],
        },
    }


def tenant(
    name: str = "other",
    on: str = "g5-1",
    *,
    gpus: int = 1,
    memory: str = "1Gi",
    model: str = "",
    made_by: str = "",
    deadline: int | None = None,
    namespace: str = NAMESPACE,
    priority: int = 0,
    phase: str = "Running",
    nominated: bool = False,
    deleting: int | None = None,
) -> Document:
    """Give a pod that is on a node, or is to be.

    :param made_by: name of a Job.
    :param deadline: seconds after its start, which is at 0.
    :param deleting: when it is killed at the latest.
    """
    limits = {"memory": memory, **({GPU: str(gpus)} if gpus else {})}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": made_by, "uid": f"uid-of-{made_by}", "controller": True}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "labels": {"gpu-training.io/model": model} if model else {},
            **({"ownerReferences": [owner]} if made_by else {}),
            **({"deletionTimestamp": at(deleting)} if deleting is not None else {}),
        },
        "spec": {
            "containers": [
                {"name": "main", "resources": {"requests": {"memory": memory, "cpu": "1"}, "limits": limits}}
            ],
            "priority": priority,
            **({"activeDeadlineSeconds": deadline} if deadline is not None else {}),
            **({} if nominated else {"nodeName": on}),
        },
        "status": {"phase": phase, "startTime": at(0), **({"nominatedNodeName": on} if nominated else {})},
    }


def event(
    about: Document,
    reason: str,
    message: str,
    *,
    source: str = "",
    second: int = 10,
    first: int | None = None,
    uid: str | None = None,
    kind: str = "",
) -> Document:
    """Give an Event about an object.

    :param second: when it was said last.
    :param first: when it was said first; None: then, too.
    :param uid: of another object of the same name.
    """
    metadata = about["metadata"]
    return {
        "involvedObject": {
            "kind": kind or about.get("kind", ""),
            "name": metadata["name"],
            "uid": metadata["uid"] if uid is None else uid,
        },
        "reason": reason,
        "message": message,
        "type": "Warning" if reason.startswith("Failed") else "Normal",
        "source": {"component": source},
        "firstTimestamp": at(second if first is None else first),
        "lastTimestamp": at(second),
        "count": 1 if first is None else 2,
    }


def workload(*conditions: Document, queue: str = "gpu", active: bool = True, job_uid: str = JOB_UID) -> Document:
    """Give a Kueue Workload of the Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": job_uid, "controller": True}
    return {
        "metadata": {"name": "job-flight-delay-f27a5", "ownerReferences": [owner]},
        "spec": {"queueName": queue, "active": active},
        "status": {"conditions": list(conditions)},
    }


def queued_job(**status: Any) -> Document:
    """Give a Job that is suspended for a queue."""
    metadata = {"labels": {"kueue.x-k8s.io/queue-name": "gpu"}}
    return job(condition("Suspended", reason="JobSuspended"), spec={"suspend": True}, metadata=metadata, status=status)


def untaken_job() -> Document:
    """Give a Job that no controller has looked at."""
    document = job()
    document["status"] = {}
    return document


def waiting_pod(message: str = TAKEN, *, reason: str = "Unschedulable", spec: Any = None, **more: Any) -> Document:
    """Give a pod that has no node, and what the scheduler says of it; nothing where the message is empty.

    :param spec: fields of the pod's spec to be otherwise.
    """
    said = [condition("PodScheduled", status="False", reason=reason, message=message, second=1)] if message else []
    document = pod("Pending", scheduled=None, conditions=said, **more)
    document["spec"] |= {"tolerations": [GPU_TOLERATION], **(spec or {})}
    return document


def around(
    nodes: Iterable[Any] | None = None,
    tenants: Iterable[Any] | None = (),
    events: Iterable[Any] | None = (),
    workloads: Iterable[Any] | None = (),
    *,
    autoscaler: Autoscaler = Autoscaler.NONE,
    quotas: Iterable[Any] = (),
    limits: Iterable[Any] = (),
    hidden: tuple[str, ...] = (),
    everywhere: bool = True,
) -> Surroundings:
    """Give the surroundings in documents; None: they could not be read.

    :param everywhere: whether the tenants are those of all namespaces.
    """
    held = None if tenants is None else tuple(each for each in map(tenant_of, tenants) if each is not None)
    return Surroundings(
        nodes=None if nodes is None else tuple(map(node_of, nodes)),
        tenants=held,
        events=None if events is None else tuple(map(happening_of, events)),
        workloads=None if workloads is None else tuple(map(workload_of, workloads)),
        quotas=tuple(map(quota_of, quotas)),
        limits=tuple(limit for each in limits for limit in limits_of(each)),
        autoscaler=autoscaler,
        hidden=hidden,
        tenants_everywhere=everywhere,
    )


def told(
    pods: Sequence[Any],
    surroundings: Surroundings,
    *,
    of: Any = None,
    gone: Sequence[Any] = (),
    second: int = 120,
    demand: bool = True,
) -> Report | None:
    """Give what is told of a training.

    :param of: its Job; one that runs by default.
    :param gone: pods that the API server no longer has.
    :param second: now, in seconds after the Job was made.
    :param demand: whether it is known what a pod demands.
    """
    of = job() if of is None else of
    source = next(iter(pods), of)
    wanted = demand_of(source) if demand else None
    observation = observe(of, pods, gone_pods=gone)
    report = diagnose(observation, wanted, surroundings, moment(second))
    trains = any(each.training and each.training.state is ContainerState.RUNNING for each in observation.pods)
    assert report is None or _may_be(report, trains), report
    return report


def _may_be(report: Report, trains: bool) -> bool:
    """Whether the cause may have that cure; what is never cured is waited for while another pod trains."""
    cures = CURES[report.cause]
    return report.cure in cures or (trains and report.cure is Cure.WAITING and Cure.NEVER in cures)


def report_of(*args: Any, **more: Any) -> Report:
    """Give what is told of a training that waits."""
    report = told(*args, **more)
    assert report is not None
    return report
