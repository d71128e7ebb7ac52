"""Base Job document + spec -> Job document.

The base is what KubernetesJobOperator builds from its own parameters and full_job_spec; the spec's fields are laid over
it, and identity (name, namespace, our labels and annotations, restart and replacement policy) always wins. Pure:
documents go in and come out as plain data in the API's own spelling.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpu_training.contract import TERMINATION_MESSAGE_PATH, Variable
from gpu_training.core.classify import policy_rules
from gpu_training.core.errors import ConfigurationError
from gpu_training.core.naming import (
    QUEUE_LABEL,
    TRAINING_CONTAINER,
    Identity,
    identity_annotations,
    identity_labels,
    job_name,
    lineage_hash,
)
from gpu_training.core.spec import GPU_RESOURCE, TrainingSpec, Volume, VolumeSource

SHARED_MEMORY_VOLUME: Final = "shared-memory"
SHARED_MEMORY_PATH: Final = "/dev/shm"  # noqa: S108 - a mount point in the pod
_USER: Final = 1000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a Job needs that is known only when it is made.

    :param data_uri: URI of the data version's manifest.
    :param tracking_uri: MLflow's, as the pod reaches it.
    """

    data_uri: str
    tracking_uri: str
    mlflow_run_id: str


def build_job(base: Mapping[str, Any], spec: TrainingSpec, identity: Identity, settings: RunSettings) -> Document:
    """Give the Job's document. The base is not changed.

    :raises ConfigurationError: the base asks for what can not be kept: a pod restart policy other than Never, another
        value of podReplacementPolicy, or a container that is not a mapping.
    """
    job: Document = copy.deepcopy(dict(base))
    job["apiVersion"], job["kind"] = "batch/v1", "Job"
    metadata = _child(job, "metadata")
    metadata.pop("generateName", None)
    job_spec = _child(job, "spec")
    metadata["name"] = job_name(identity, indexed=job_spec.get("completionMode") == "Indexed")
    metadata["namespace"] = spec.namespace
    _mark(metadata, spec, identity)
    _limit(job_spec, spec)
    template = _child(job_spec, "template")
    template_metadata = _child(template, "metadata")
    for name in ("name", "generateName", "namespace"):
        template_metadata.pop(name, None)
    _mark(template_metadata, spec, identity, queue=False)
    _shape_pod(_child(template, "spec"), spec, identity, settings)
    return job


def _child(parent: Document, name: str) -> Document:
    value = parent.get(name)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise ConfigurationError(f"full_job_spec.{name}", value, "a mapping is expected")
    parent[name] = value
    return value


def _mark(metadata: Document, spec: TrainingSpec, identity: Identity, *, queue: bool = True) -> None:
    queue_label = {QUEUE_LABEL: spec.queue} if spec.queue and queue else {}
    metadata["labels"] = {**(metadata.get("labels") or {}), **identity_labels(identity), **queue_label}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **identity_annotations(identity)}


def _limit(job_spec: Document, spec: TrainingSpec) -> None:
    _insist(job_spec, "podReplacementPolicy", "Failed", "spec.podReplacementPolicy")
    job_spec["activeDeadlineSeconds"] = spec.deadline_seconds
    job_spec["backoffLimit"] = spec.backoff_limit
    job_spec["ttlSecondsAfterFinished"] = spec.ttl_seconds_after_finished
    job_spec.setdefault("podFailurePolicy", {"rules": policy_rules()})


def _insist(document: Document, name: str, value: str, path: str) -> None:
    if document.get(name) not in (None, value):
        raise ConfigurationError(f"full_job_spec.{path}", document[name], f"only {value} is allowed for a training")
    document[name] = value


def _shape_pod(pod: Document, spec: TrainingSpec, identity: Identity, settings: RunSettings) -> None:
    _insist(pod, "restartPolicy", "Never", "spec.template.spec.restartPolicy")
    # The pod's own deadline counts image pull and volumes too, and kills without a word (SEMANTICS, section 1).
    pod.pop("activeDeadlineSeconds", None)
    pod["serviceAccountName"] = spec.service_account
    pod["automountServiceAccountToken"] = False
    pod.setdefault("enableServiceLinks", False)
    pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **spec.node_selector}
    pod["tolerations"] = _merge_unique(pod.get("tolerations"), _tolerations(spec))
    _set_names(pod, "imagePullSecrets", spec.image_pull_secrets)
    for name, value in (("runtimeClassName", spec.runtime_class), ("priorityClassName", spec.priority_class)):
        if value is not None:
            pod[name] = value
    pod["securityContext"] = {**_POD_SECURITY, **(pod.get("securityContext") or {})}
    pod["volumes"] = _by_key("name", pod.get("volumes"), _volumes(spec))
    containers = [dict(container) for container in pod.get("containers") or ()]
    training = next((c for c in containers if c.get("name") == TRAINING_CONTAINER), None)
    if training is None:
        training = {"name": TRAINING_CONTAINER}
        containers.insert(0, training)
    _shape_training_container(training, spec, identity, settings)
    for container in (*containers, *(pod.get("initContainers") or ())):
        container["securityContext"] = {**_CONTAINER_SECURITY, **(container.get("securityContext") or {})}
    pod["containers"] = containers


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


def _tolerations(spec: TrainingSpec) -> list[Document]:
    gpu = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
    return [gpu, *(_toleration(t.key, t.value, t.effect) for t in spec.tolerations)]


def _toleration(key: str, value: str, effect: str) -> Document:
    match = {"operator": "Equal", "value": value} if value else {"operator": "Exists"}
    return {"key": key, **match, "effect": effect}


def _merge_unique(base: Any, ours: list[Document]) -> list[Document]:
    merged = list(base or ())
    return merged + [entry for entry in ours if entry not in merged]


def _set_names(pod: Document, name: str, names: tuple[str, ...]) -> None:
    if names:
        pod[name] = _by_key("name", pod.get(name), [{"name": entry} for entry in names])


def _by_key(key: str, base: Any, ours: list[Document]) -> list[Document]:
    """Give base with ours laid over it: an entry of ours replaces one of the same key."""
    replaced = {entry[key] for entry in ours}
    return [entry for entry in base or () if entry.get(key) not in replaced] + ours


def _volumes(spec: TrainingSpec) -> list[Document]:
    shared_memory = {
        "name": SHARED_MEMORY_VOLUME,
        "emptyDir": {"medium": "Memory", "sizeLimit": spec.shared_memory},
    }
    return [shared_memory, *(_volume(volume) for volume in spec.volumes)]


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


def _shape_training_container(
    container: Document, spec: TrainingSpec, identity: Identity, settings: RunSettings
) -> None:
    container["image"] = spec.image
    container["command"] = list(spec.entrypoint)
    container["args"] = [
        f"--data-version={identity.data_version}",
        *(f"--{name}={value}" for name, value in spec.arguments.items()),
    ]
    container["env"] = _by_key("name", container.get("env"), _environment(spec, identity, settings))
    sources = [{"secretRef": {"name": name}} for name in spec.environment_from_secrets]
    sources += [{"configMapRef": {"name": name}} for name in spec.environment_from_config_maps]
    container["envFrom"] = _merge_unique(container.get("envFrom"), sources)
    mounts: list[Document] = [{"name": SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY_PATH}]
    mounts += [
        {"name": v.name, "mountPath": v.mount_path, **({"readOnly": True} if v.read_only else {})} for v in spec.volumes
    ]
    container["volumeMounts"] = _by_key("mountPath", container.get("volumeMounts"), mounts)
    container["resources"] = {"requests": dict(spec.resources.requests), "limits": dict(spec.resources.limits)}
    container["terminationMessagePath"] = TERMINATION_MESSAGE_PATH
    container["terminationMessagePolicy"] = "File"


def _environment(spec: TrainingSpec, identity: Identity, settings: RunSettings) -> list[Document]:
    values = {
        Variable.DATA_VERSION: identity.data_version,
        Variable.DATA_URI: settings.data_uri,
        Variable.DATA_DIGEST: identity.data_digest,
        Variable.FINGERPRINT: identity.fingerprint,
        Variable.MLFLOW_TRACKING_URI: settings.tracking_uri,
        Variable.MLFLOW_RUN_ID: settings.mlflow_run_id,
    }
    if spec.checkpoint_uri is not None:
        lineage = lineage_hash(identity.deployment, identity.fingerprint)
        folder = f"{identity.model}-{lineage}-g{identity.generation}"
        values[Variable.CHECKPOINT_URI] = f"{spec.checkpoint_uri.rstrip('/')}/{folder}"
    entries: list[Document] = [{"name": name, "value": value} for name, value in spec.environment.items()]
    entries += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": key.secret, "key": key.key}}}
        for name, key in spec.secret_environment.items()
    ]
    entries += [{"name": name.value, "value": value} for name, value in values.items()]
    entries.append({"name": Variable.POD_UID.value, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}})
    return entries
