"""Job and Pod documents as Kubernetes 1.37 gives them, cut to what anybody reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Document = dict[str, Any]

NAMESPACE = "gpu-training"
JOB_NAME = "flight-delay-0123456789abcdef-g1-1"
JOB_UID = "5f0c2f6e-6d0e-4d2e-8d9c-0a1b2c3d4e5f"
NODE = "gpu-1"

TRAINED = (
    '{"v":1,"status":"trained","data_version":"2026-03-01","model_uri":"models:/m-1","metrics":{"rmse":12.5},'
    '"first_step":1,"last_step":200,"device":"cpu"}'
)
DATA_DIGEST = "sha256:" + "d" * 64


def at(second: int) -> str:
    """Give the moment so many seconds after the Job was made, as the API server writes it."""
    return f"2026-11-30T19:{24 + second // 60:02d}:{second % 60:02d}Z"


def moment(second: int) -> float:
    """Give the same moment in seconds since 1970 (2026-11-30T19:24:00Z is 1796066640)."""
    return 1796066640.0 + second


def condition(type_: str, *, status: str = "True", reason: str = "", message: str = "", second: int = 10) -> Document:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": at(second),
        "lastTransitionTime": at(second),
    }


def job(
    *conditions: Document,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Document:
    """Give a Job with these conditions."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": JOB_NAME,
            "namespace": NAMESPACE,
            "uid": JOB_UID,
            "resourceVersion": "1207",
            "generation": 1,
            "creationTimestamp": at(0),
            "labels": {"gpu-training.io/model": "flight-delay"},
            "annotations": {"gpu-training.io/data-digest": DATA_DIGEST},
            **(metadata or {}),
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "activeDeadlineSeconds": 1800,
            "backoffLimit": 2,
            "completionMode": "NonIndexed",
            "manualSelector": False,
            "podReplacementPolicy": "Failed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": JOB_UID}},
            "suspend": False,
            "ttlSecondsAfterFinished": 3600,
            **(spec or {}),
        },
        "status": {
            "startTime": at(0),
            "terminating": 0,
            "uncountedTerminatedPods": {},
            **({"conditions": list(conditions)} if conditions else {}),
            **(status or {}),
        },
    }


def complete(second: int = 13) -> Document:
    """Give a Job that is Complete."""
    done = {"reason": "CompletionsReached", "message": "Reached expected number of succeeded pods", "second": second}
    return job(
        condition("SuccessCriteriaMet", **done),
        condition("Complete", **done),
        status={"succeeded": 1, "ready": 0, "completionTime": at(second)},
    )


def failed(
    reason: str = "BackoffLimitExceeded",
    message: str = "Job has reached the specified backoff limit",
    *,
    second: int = 13,
) -> Document:
    """Give a Job that is Failed."""
    return job(
        condition("FailureTarget", reason=reason, message=message, second=second),
        condition("Failed", reason=reason, message=message, second=second),
        status={"failed": 1, "ready": 0},
    )


def terminated(
    exit_code: int,
    *,
    reason: str | None = None,
    message: str = "",
    started: int | None = 2,
    finished: int = 11,
) -> Document:
    """Give the state of a container that has ended; started None: it never did, which Kubernetes writes as 1970."""
    return {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            **({"message": message} if message else {}),
            "startedAt": "1970-01-01T00:00:00Z" if started is None else at(started),
            "finishedAt": at(finished),
            "containerID": "containerd://4be1",
        }
    }


def running(started: int = 2) -> Document:
    return {"running": {"startedAt": at(started)}}


def waiting(reason: str, message: str = "") -> Document:
    return {"waiting": {"reason": reason, **({"message": message} if message else {})}}


def container(state: Document, *, name: str = "training") -> Document:
    """Give the status of a container."""
    return {
        "name": name,
        "state": state,
        "lastState": {},
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "image": "xgboost-trainer:0.1.0",
        "imageID": "xgboost-trainer@sha256:" + "a" * 64,
    }


def pod(
    phase: str = "Running",
    *containers: Document,
    name: str = "flight-delay-0123456789abcdef-g1-1-x7k2p",
    created: int = 0,
    scheduled: int | None = 1,
    conditions: Sequence[Document] = (),
    init: Sequence[Document] = (),
    gpus: int = 1,
    status: Mapping[str, Any] | None = None,
    deleting: bool = False,
    owner: str | None = JOB_UID,
    index: int | None = None,
) -> Document:
    """Give a pod of the Job.

    :param scheduled: when it was bound to the node; None when it was not.
    :param owner: UID of the Job that controls it; None for a pod of nobody.
    """
    bound = [condition("PodScheduled", second=scheduled)] if scheduled is not None else []
    limits = {"memory": "2Gi", "nvidia.com/gpu": str(gpus)}
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB_NAME, "uid": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "creationTimestamp": at(created),
            "labels": {"batch.kubernetes.io/controller-uid": owner} if owner else {},
            "annotations": {} if index is None else {"batch.kubernetes.io/job-completion-index": str(index)},
            **({"ownerReferences": [reference]} if owner else {}),
            **({"deletionTimestamp": at(created + 40), "deletionGracePeriodSeconds": 30} if deleting else {}),
        },
        "spec": {
            "containers": [{"name": "training", "resources": {"requests": limits, "limits": limits}}],
            "restartPolicy": "Never",
            **({"nodeName": NODE} if scheduled is not None else {}),
        },
        "status": {
            "phase": phase,
            "conditions": [*conditions, *bound],
            **({"startTime": at(scheduled)} if scheduled is not None else {}),
            **({"containerStatuses": list(containers)} if containers else {}),
            **({"initContainerStatuses": list(init)} if init else {}),
            **(status or {}),
        },
    }


def succeeded_pod(message: str = TRAINED, **more: Any) -> Document:
    """Give a pod whose training ended with 0."""
    return pod("Succeeded", container(terminated(0, message=message)), **more)


def failed_pod(exit_code: int = 1, *, reason: str | None = None, message: str = "", **more: Any) -> Document:
    """Give a pod whose training ended with another code."""
    return pod("Failed", container(terminated(exit_code, reason=reason, message=message)), **more)


def disruption(second: int, reason: str = "EvictionByEvictionAPI", message: str = "Eviction API: evicting") -> Document:
    return condition("DisruptionTarget", reason=reason, message=message, second=second)
