"""Base Job document + spec -> Job document.

The base is what KubernetesJobOperator builds from its own parameters and full_job_spec; the spec's fields are laid over
it. What the base alone says is kept, identity (name, namespace, our labels and annotations) is always ours, and a base
that contradicts the spec is refused, so that nothing is dropped in silence. Pure: documents go in and come out as plain
data in the API's own spelling.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from gpu_training.core.affinity import keep_off
from gpu_training.core.clocks import clocks_annotation
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.failure_policy import build_failure_policy
from gpu_training.core.naming import (
    ANNOTATION_CLOCKS,
    ANNOTATION_WAITERS,
    QUEUE_LABEL,
    TRAINING_CONTAINER,
    Identity,
    identity_annotations,
    identity_labels,
    job_name,
)
from gpu_training.core.overlay import (
    Document,
    add_missing,
    child,
    children,
    fill,
    lay_over,
    settle,
    settle_all,
)
from gpu_training.core.placement import Toleration
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.rules import RuleTable
from gpu_training.core.spec import DEFAULT_GRACE_S, MAXIMUM_GRACE_S, NO_SHARED_MEMORY, TrainingSpec
from gpu_training.core.training_container import RunSettings, shape_training_container
from gpu_training.core.volumes import SHARED_MEMORY_VOLUME, Volume, VolumeSource
from gpu_training.core.waiters import to_text

_JOB: Final = "full_job_spec"
_JOB_SPEC: Final = f"{_JOB}.spec"
_TEMPLATE: Final = f"{_JOB_SPEC}.template"
_POD: Final = f"{_TEMPLATE}.spec"
_USER: Final = 1000

# What Pod Security `restricted` asks for; https://kubernetes.io/docs/concepts/security/pod-security-standards/
_POD_SECURITY: Final[Mapping[str, Any]] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER_SECURITY: Final[Mapping[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def build_job(
    base: Mapping[str, Any], spec: TrainingSpec, identity: Identity, settings: RunSettings, rules: RuleTable
) -> Document:
    """Give the Job's document. The base is not changed.

    :param rules: the half that Kubernetes can match becomes the Job's podFailurePolicy.
    :raises ConfigurationError: the base contradicts the spec, or what every training needs: pods that never restart in
        place and are replaced only when they have ended.
    """
    job: Document = copy.deepcopy(dict(base))
    job["apiVersion"], job["kind"] = "batch/v1", "Job"
    metadata, job_spec = child(job, "metadata", _JOB), child(job, "spec", _JOB)
    _name(metadata, job_spec, spec, identity)
    metadata["annotations"][ANNOTATION_CLOCKS] = clocks_annotation(spec.clocks, settings.work_seconds)
    _limit(job_spec, spec, settings, rules)
    template = child(job_spec, "template", _JOB_SPEC)
    template_metadata = child(template, "metadata", _TEMPLATE)
    for name in ("name", "generateName", "namespace"):
        template_metadata.pop(name, None)
    _mark(template_metadata, identity, _TEMPLATE)
    _shape_pod(child(template, "spec", _TEMPLATE), spec, identity, settings)
    return job


def _name(metadata: Document, job_spec: Document, spec: TrainingSpec, identity: Identity) -> None:
    metadata.pop("generateName", None)
    metadata["name"] = job_name(identity, indexed=job_spec.get("completionMode") == "Indexed")
    metadata["namespace"] = spec.namespace
    _mark(metadata, identity, _JOB)
    # On the Job alone: a pod template can not change when others join or leave.
    metadata["annotations"][ANNOTATION_WAITERS] = to_text([identity.owner])
    if spec.queue is not None:
        settle(metadata["labels"], QUEUE_LABEL, spec.queue, f"{_JOB}.metadata.labels")


def _mark(metadata: Document, identity: Identity, where: str) -> None:
    child(metadata, "labels", f"{where}.metadata").update(identity_labels(identity))
    child(metadata, "annotations", f"{where}.metadata").update(identity_annotations(identity))


def _limit(job_spec: Document, spec: TrainingSpec, settings: RunSettings, rules: RuleTable) -> None:
    values = {
        "podReplacementPolicy": "Failed",
        "activeDeadlineSeconds": spec.deadline_seconds,
        "backoffLimit": spec.backoff_limit,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
    }
    for name, value in values.items():
        settle(job_spec, name, value, _JOB_SPEC)
    # A base may repeat what the spec says; what counts is what is left of the lineage's budget.
    job_spec["activeDeadlineSeconds"] = settings.deadline_seconds
    job_spec["backoffLimit"] = settings.backoff_limit
    job_spec["podFailurePolicy"] = build_failure_policy(job_spec.get("podFailurePolicy"), rules)
    parallelism, completions = job_spec.get("parallelism"), job_spec.get("completions")
    if isinstance(parallelism, int) and isinstance(completions, int) and parallelism > completions:
        raise ConfigurationError(
            f"{_JOB_SPEC}.parallelism", parallelism, f"at most completions ({completions}) pods would ever train"
        )


def _shape_pod(pod: Document, spec: TrainingSpec, identity: Identity, settings: RunSettings) -> None:
    settle(pod, "restartPolicy", "Never", _POD)
    # The pod's own deadline counts image pull and volumes too, and kills without a condition; the
    # stock operator sets it to what it sets the Job's to.
    settle(pod, "activeDeadlineSeconds", spec.deadline_seconds, _POD)
    del pod["activeDeadlineSeconds"]
    settle(pod, "serviceAccountName", spec.service_account, _POD)
    # A training talks to no API server, and a hundred Services would be a thousand variables.
    fill(pod, "automountServiceAccountToken", False)
    fill(pod, "enableServiceLinks", False)
    settle_all(pod, "nodeSelector", spec.node_selector, _POD)
    keep_off(pod, settings.avoid_nodes, _POD)
    add_missing(pod, "tolerations", tolerations_of(spec), _POD)
    if spec.image_pull_secrets:
        add_missing(pod, "imagePullSecrets", [{"name": name} for name in spec.image_pull_secrets], _POD)
    for name, value in (("runtimeClassName", spec.runtime_class), ("priorityClassName", spec.priority_class)):
        if value is not None:
            settle(pod, name, value, _POD)
    lay_over(pod, "volumes", "name", _volumes(spec), _POD)
    grace_seconds = _grace(pod, spec)
    pod["containers"] = _containers(pod, spec, identity, settings, grace_seconds)
    pod["securityContext"] = {**_POD_SECURITY, **child(pod, "securityContext", _POD)}
    inits = children(pod, "initContainers", _POD) if pod.get("initContainers") else []
    for container in (*pod["containers"], *inits):
        given = child(container, "securityContext", f"{_POD}.containers")
        container["securityContext"] = {**copy.deepcopy(_CONTAINER_SECURITY), **given}


def _grace(pod: Document, spec: TrainingSpec) -> int:
    """Give the pod's grace period in seconds, by the spec, else by the base, else Kubernetes' own."""
    if spec.grace_seconds is not None:
        settle(pod, "terminationGracePeriodSeconds", spec.grace_seconds, _POD)
    fill(pod, "terminationGracePeriodSeconds", DEFAULT_GRACE_S)
    found = pod["terminationGracePeriodSeconds"]
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAXIMUM_GRACE_S:
        raise ConfigurationError(
            f"{_POD}.terminationGracePeriodSeconds",
            found,
            f"whole seconds from 0 to {MAXIMUM_GRACE_S} are expected; training.grace_seconds is the place for them",
        )
    return found


def _containers(
    pod: Document, spec: TrainingSpec, identity: Identity, settings: RunSettings, grace_seconds: int
) -> list[Document]:
    """Give the base's containers with the training container, made where it is absent, in its place."""
    containers = list(children(pod, "containers", _POD))
    training = next((container for container in containers if container.get("name") == TRAINING_CONTAINER), None)
    if training is None:
        training = {"name": TRAINING_CONTAINER}
        containers.insert(0, training)
    where = f"{_POD}.containers[{TRAINING_CONTAINER}]"
    shape_training_container(training, spec, identity, settings, where, grace_seconds=grace_seconds)
    return containers


def tolerations_of(spec: TrainingSpec) -> list[Document]:
    """Give the tolerations of a training's pods: that of the GPU taint, and the spec's own."""
    gpu = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
    return [gpu, *map(_toleration, spec.tolerations)]


def _toleration(toleration: Toleration) -> Document:
    match = {"operator": "Equal", "value": toleration.value} if toleration.value else {"operator": "Exists"}
    return {"key": toleration.key, **match, "effect": toleration.effect}


def _volumes(spec: TrainingSpec) -> list[Document]:
    volumes = [_volume(volume) for volume in spec.volumes]
    if spec.shared_memory == NO_SHARED_MEMORY:
        return volumes
    memory = {"medium": "Memory", "sizeLimit": spec.shared_memory}
    return [{"name": SHARED_MEMORY_VOLUME, "emptyDir": memory}, *volumes]


def _volume(volume: Volume) -> Document:
    match volume.source:
        case VolumeSource.CLAIM:
            source: Document = {"persistentVolumeClaim": {"claimName": volume.reference}}
        case VolumeSource.CONFIG_MAP:
            source = {"configMap": {"name": volume.reference}}
        case VolumeSource.SECRET:
            source = {"secret": {"secretName": volume.reference}}
        case VolumeSource.EMPTY_DIR:
            source = {"emptyDir": {"sizeLimit": volume.reference} if volume.reference else {}}
    return {"name": volume.name, **source}
