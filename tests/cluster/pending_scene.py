"""Trainings as Jobs in a cluster of the sandbox, what they hold, and what is said of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.cluster.pod_documents import SECURITY

from gpu_training.core.naming import LABEL_DEPLOYMENT, LABEL_MODEL, QUEUE_LABEL
from sandbox.api import Document
from sandbox.cluster import Sandbox
from sandbox.kwok import PodLife
from sandbox.waiting import wait_for

DEPLOYMENT: Final = "pending"
DEADLINE_S: Final = 60.0
STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"

MAIN: Final = "trainings"


def training(
    name: str,
    *,
    pool: str = "",
    gpus: int = 1,
    container: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    queue: str = "",
    life: PodLife | None = None,
    job: Mapping[str, Any] | None = None,
    **pod: Any,
) -> Document:
    """Give a Job as ours are: labels, restricted pod, the toleration of the GPU taint.

    :param container: fields of the training container to be otherwise.
    :param job: fields of the Job's spec to be otherwise.
    :param pod: fields of the pod's spec to be otherwise.
    """
    own = {LABEL_DEPLOYMENT: DEPLOYMENT, LABEL_MODEL: name, **(labels or {})}
    limits = {"nvidia.com/gpu": str(gpus), "memory": "64Mi"}
    main = {
        "name": "training",
        "image": "sandbox-shell:1",
        "command": ["sh", "-c", "sleep 600"],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": limits},
        "securityContext": SECURITY | {"runAsUser": 1000},
        **(container or {}),
    }
    spec = {
        "restartPolicy": "Never",
        "serviceAccountName": "training",
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [main],
        "terminationGracePeriodSeconds": 1,
        **({"nodeSelector": {"pool": pool}} if pool else {}),
        **pod,
    }
    template = {"metadata": {"labels": own, "annotations": (life or PodLife()).annotations()}, "spec": spec}
    queued = {QUEUE_LABEL: queue} if queue else {}
    return {
        "metadata": {"name": name, "labels": own | queued},
        "spec": {"backoffLimit": 6, "suspend": bool(queue), "template": template, **(job or {})},
    }


def with_memory(amount: str) -> dict[str, Any]:
    """Give the fields of a container that asks for so much memory."""
    limits = {"nvidia.com/gpu": "1", "memory": amount}
    return {"resources": {"requests": {"cpu": "10m", "memory": amount}, "limits": limits}}


def volume(name: str, **source: Any) -> dict[str, Any]:
    """Give a pod's volume and its mount, as fields for :func:`training`."""
    security = SECURITY | {"runAsUser": 1000}
    mounted = {"volumeMounts": [{"name": name, "mountPath": f"/{name}"}], "securityContext": security}
    return {"volumes": [{"name": name, **source}], "container": mounted}


class Scene:
    """A cluster in which trainings wait."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def get(self, path: str) -> Any:
        return self.sandbox.api.request("GET", path)

    def patch(self, path: str, change: object, content_type: str = MERGE) -> None:
        self.sandbox.api.request("PATCH", path, change, content_type=content_type)

    def create(self, job: Document, namespace: str = MAIN) -> Document:
        """Create a Job and give it."""
        made: Document = self.sandbox.api.request("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
        return made

    def job(self, name: str, namespace: str = MAIN) -> Document:
        found: Document = self.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
        return found

    def delete(self, job: Document) -> None:
        """Delete a Job, and return once its pods are gone."""
        metadata = job["metadata"]
        path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}"
        self.sandbox.api.request("DELETE", path, {"propagationPolicy": "Background"})
        gone = f"the end of the pods of {metadata['name']}"
        wait_for(lambda: not self.pods_of(metadata["name"], metadata["namespace"]), DEADLINE_S, gone)

    def pods_of(self, job: str, namespace: str = MAIN) -> list[Document]:
        query = f"labelSelector=batch.kubernetes.io/job-name={job}"
        found: list[Document] = self.get(f"/api/v1/namespaces/{namespace}/pods?{query}")["items"]
        return found

    def wait_for_pod(self, job: str, *, phase: str, namespace: str = MAIN) -> Document:
        """Give a Job's first pod once it is in a phase."""

        def look() -> Document | None:
            return next((pod for pod in self.pods_of(job, namespace) if pod["status"]["phase"] == phase), None)

        found = wait_for(look, DEADLINE_S, f"a pod of {job} that is {phase}")
        assert found is not None
        return found

    def hold(self, name: str, *, pool: str, namespace: str = MAIN, **more: Any) -> None:
        """Have a training run that holds GPUs; returns once it does."""
        self.create(training(name, pool=pool, **more), namespace)
        self.wait_for_pod(name, phase="Running", namespace=namespace)

    def tell(
        self, pod: Document, *, source: str, reason: str, message: str, kind: str = "Normal", said_for_s: float = 0.0
    ) -> None:
        """Post an event about a pod, as a component that can not run here does.

        :param said_for_s: how long ago it was said first, in seconds.
        """
        metadata = pod["metadata"]
        first, now = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago)) for ago in (said_for_s, 0.0))
        event = {
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": "Pod",
                "apiVersion": "v1",
                **{key: metadata[key] for key in ("name", "namespace", "uid")},
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": source},
            "firstTimestamp": first,
            "lastTimestamp": now,
            "count": 2 if said_for_s else 1,
        }
        self.sandbox.api.request("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)
