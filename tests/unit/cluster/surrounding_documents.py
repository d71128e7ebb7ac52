"""Documents of what is around a training, as an API server gives them."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]

NAMESPACE = "trainings"
NODES = "/api/v1/nodes"
ALL_PODS = "/api/v1/pods"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
QUOTAS = f"/api/v1/namespaces/{NAMESPACE}/resourcequotas"
LIMITS = f"/api/v1/namespaces/{NAMESPACE}/limitranges"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
WORKLOADS = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
POSITIONS = f"/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/localqueues/{{}}/pendingworkloads"
AUTOSCALER = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


def groups(*names: str) -> Document:
    return {
        "kind": "APIGroupList",
        "groups": [{"name": name, "preferredVersion": {"version": "v1beta2"}} for name in names],
    }


def node(name: str, *, gpus: int = 1, cordoned: bool = False) -> Document:
    return {
        "metadata": {"name": name, "labels": {"pool": "a"}},
        "spec": {"unschedulable": cordoned},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"nvidia.com/gpu": str(gpus)}},
    }


def pod(name: str, *, node: str = "gpu-1", namespace: str = NAMESPACE, job_uid: str = "", gpus: int = 1) -> Document:
    container = {
        "name": "training",
        "image": "secret/image",
        "args": ["--password=hunter2"],
        "env": [{"name": "PASSWORD", "value": "hunter2"}],
        "resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}},
    }
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"password": "hunter2"},
            "labels": {"batch.kubernetes.io/controller-uid": job_uid} if job_uid else {},
        },
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def event(
    name: str, *, kind: str = "Pod", uid: str = "", about: str = "", reason: str = "x", source: str = "scheduler"
) -> Document:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "involvedObject": {"kind": kind, "name": about, "uid": uid},
        "reason": reason,
        "message": f"the message of {name}",
        "type": "Warning",
        "source": {"component": source},
        "lastTimestamp": "2026-12-01T10:00:00Z",
    }


def quota(name: str, *, hard: str = "4", used: str = "1") -> Document:
    key = "requests.nvidia.com/gpu"
    return {"metadata": {"name": name}, "status": {"hard": {key: hard}, "used": {key: used}}}


def limit_range(name: str) -> Document:
    return {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}}


def workload(name: str, *, job_uid: str, queue: str = "nightly", admitted: bool = False) -> Document:
    condition = {"type": "QuotaReserved", "status": "True" if admitted else "False", "reason": "Pending"}
    return {
        "metadata": {"name": name, "ownerReferences": [{"kind": "Job", "uid": job_uid, "controller": True}]},
        "spec": {"queueName": queue, "active": True},
        "status": {"conditions": [condition]},
    }


def positions(*names: str) -> Document:
    items = [{"metadata": {"name": name}, "positionInLocalQueue": place} for place, name in enumerate(names)]
    return {"kind": "PendingWorkloadsSummary", "items": items}
