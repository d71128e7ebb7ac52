"""The training container of a Job's pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpu_training.contract import TERMINATION_MESSAGE_PATH, Variable
from gpu_training.core import documents
from gpu_training.core.naming import Identity
from gpu_training.core.overlay import Document, add_missing, lay_over, settle
from gpu_training.core.spec import DATA_VERSION_ARGUMENT, NO_SHARED_MEMORY, TrainingSpec
from gpu_training.core.volumes import SHARED_MEMORY_PATH, SHARED_MEMORY_VOLUME


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """What a Job needs that is known only when it is made.

    :param data_uri: URI of the data version's manifest.
    :param tracking_uri: MLflow's, as the pod reaches it.
    :param backoff_limit: failures after which Kubernetes gives up: what is left of the budget, and slack.
    :param deadline_seconds: the Job's own deadline, its time in the queue included.
    :param work_seconds: what the Job may take outside of the queue.
    :param avoid_nodes: names of nodes on which the training failed for the node's sake.
    """

    data_uri: str
    tracking_uri: str
    mlflow_run_id: str
    backoff_limit: int
    deadline_seconds: int
    work_seconds: int
    avoid_nodes: Sequence[str] = ()


def shape_training_container(
    container: Document,
    spec: TrainingSpec,
    identity: Identity,
    settings: RunSettings,
    where: str,
    *,
    grace_seconds: int,
) -> None:
    """Lay the spec over a base's training container.

    :param grace_seconds: of its pod.
    :raises ConfigurationError: the base contradicts the spec.
    """
    arguments = {DATA_VERSION_ARGUMENT: identity.data_version, **spec.arguments}
    values = {
        "image": spec.image,
        "command": list(spec.entrypoint),
        # One word an argument: a value that looks like an option stays a value.
        "args": [f"--{name}={value}" for name, value in arguments.items()],
        "resources": {"requests": dict(spec.resources.requests), "limits": dict(spec.resources.limits)},
        # The result is read from there. Its tail of the log would be no result.
        "terminationMessagePath": TERMINATION_MESSAGE_PATH,
        "terminationMessagePolicy": "File",
    }
    for name, value in values.items():
        settle(container, name, value, where)
    lay_over(container, "env", "name", _environment(spec, identity, settings, grace_seconds), where)
    sources: list[Document] = [{"secretRef": {"name": name}} for name in spec.environment_from_secrets]
    sources += [{"configMapRef": {"name": name}} for name in spec.environment_from_config_maps]
    add_missing(container, "envFrom", sources, where)
    lay_over(container, "volumeMounts", "mountPath", _mounts(spec), where)


def checkpoint_folder(spec: TrainingSpec, identity: Identity) -> str | None:
    """Give the URI below which all checkpoints of a lineage are, whichever Job wrote them; None for none."""
    if spec.checkpoint_uri is None:
        return None
    return f"{spec.checkpoint_uri.rstrip('/')}/{identity.model}-{identity.lineage}-g{identity.generation}"


def _mounts(spec: TrainingSpec) -> list[Document]:
    mounts: list[Document] = []
    if spec.shared_memory != NO_SHARED_MEMORY:
        mounts.append({"name": SHARED_MEMORY_VOLUME, "mountPath": SHARED_MEMORY_PATH})
    for volume in spec.volumes:
        mount: Document = {"name": volume.name, "mountPath": volume.mount_path}
        mounts.append({**mount, "readOnly": True} if volume.read_only else mount)
    return mounts


def _environment(spec: TrainingSpec, identity: Identity, settings: RunSettings, grace_seconds: int) -> list[Document]:
    """Give all variables, the operator's own first, since a value may name those before it, as `$(DATA_VERSION)`."""
    values = {
        Variable.DATA_VERSION: identity.data_version,
        Variable.DATA_URI: settings.data_uri,
        Variable.DATA_DIGEST: identity.data_digest,
        Variable.FINGERPRINT: identity.fingerprint,
        Variable.MLFLOW_TRACKING_URI: settings.tracking_uri,
        Variable.MLFLOW_RUN_ID: settings.mlflow_run_id,
        Variable.CHECKPOINT_URI: checkpoint_folder(spec, identity),
        Variable.GRACE_SECONDS: str(grace_seconds),
    }
    entries: list[Document] = [
        {"name": name.value, "value": value} for name, value in values.items() if value is not None
    ]
    entries.append({"name": Variable.POD_UID.value, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}})
    entries += [{"name": name, "value": value} for name, value in spec.environment.items()]
    entries += [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": key.secret, "key": key.key}}}
        for name, key in spec.secret_environment.items()
    ]
    return entries


def mlflow_run_of(job: object) -> str:
    """Give the MLflow run that a Job's document names; "" when it names none."""
    pod = documents.child(documents.child(documents.child(job, "spec"), "template"), "spec")
    for container in documents.entries(pod, "containers"):
        for entry in documents.entries(container, "env"):
            if entry.get("name") == Variable.MLFLOW_RUN_ID:
                return documents.text(entry, "value")
    return ""
