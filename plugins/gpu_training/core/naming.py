"""Identity: fingerprint, Job names, labels, annotations. Pure functions; every name given is one Kubernetes accepts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpu_training.core.spec import TrainingSpec

PREFIX: Final = "gpu-training.io/"
"""What all our labels and annotations begin with."""

TRAINING_CONTAINER: Final = "training"

LABEL_MODEL: Final = PREFIX + "model"
LABEL_DEPLOYMENT: Final = PREFIX + "deployment"
LABEL_LINEAGE: Final = PREFIX + "lineage"
LABEL_RUN: Final = PREFIX + "run"
LABEL_TASK: Final = PREFIX + "task"
LABEL_LEDGER: Final = PREFIX + "ledger"
LEDGER_KEY: Final = "ledger.json"
"""Key of a ledger's ConfigMap."""
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"

ANNOTATION_FINGERPRINT: Final = PREFIX + "fingerprint"
ANNOTATION_GENERATION: Final = PREFIX + "generation"
ANNOTATION_DATA_VERSION: Final = PREFIX + "data-version"
ANNOTATION_DATA_DIGEST: Final = PREFIX + "data-digest"
ANNOTATION_WAITERS: Final = PREFIX + "waiters"
"""The task tries that wait on the Job now (:mod:`gpu_training.core.waiters`); on the Job alone, since it changes."""
ANNOTATION_ENDED_BECAUSE: Final = PREFIX + "ended-because"
"""Why we had Kubernetes end the Job (:mod:`gpu_training.core.orders`)."""
ANNOTATION_PENDING: Final = PREFIX + "pending"
"""Why no attempt runs (:mod:`gpu_training.core.pending_document`); absent while one does."""
ANNOTATION_CLOCKS: Final = PREFIX + "clocks"
"""The clocks of the spec that the Job was made from (:mod:`gpu_training.core.clocks`)."""
ANNOTATION_PROGRESS: Final = PREFIX + "progress"
"""How far the training is (:mod:`gpu_training.core.progress_document`); on the Job alone, since it changes."""
HEARD_PREFIX: Final = "heard." + PREFIX
"""What the annotation of each waiter begins with that says how far its task log is (:mod:`gpu_training.core.heard`)."""

_MAX_NAME: Final = 63
_PARTS_OF_A_TRY: Final = 5
_COUNTERS_BELOW: Final = 10**9
# An Indexed Job's pods append `-<index>`; five digits are the most that Kubernetes' limit on completions leaves useful.
_INDEX_ROOM: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTry:
    """One try of one task instance, as Airflow names it.

    :param map_index: -1 when the task is not mapped.
    """

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int

    def to_plain(self) -> list[str | int]:
        """Give the try as plain data."""
        return [self.dag_id, self.run_id, self.task_id, self.map_index, self.try_number]

    def to_text(self) -> str:
        """Give the canonical JSON text."""
        return json.dumps(self.to_plain(), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> TaskTry | None:
        """Give the try in a text; None when the text is not one."""
        try:
            return cls.from_plain(json.loads(text))
        except (ValueError, RecursionError):
            return None

    @classmethod
    def from_plain(cls, plain: object) -> TaskTry | None:
        """Give the try in plain data; None when it is none."""
        if not isinstance(plain, list) or len(plain) != _PARTS_OF_A_TRY:
            return None
        dag_id, run_id, task_id, map_index, try_number = plain
        if not all(isinstance(part, str) for part in (dag_id, run_id, task_id)):
            return None
        if not all(isinstance(part, int) and not isinstance(part, bool) for part in (map_index, try_number)):
            return None
        return cls(dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index, try_number=try_number)

    @property
    def task(self) -> str:
        """Canonical text of the task instance, the same for all its tries."""
        return json.dumps(list(task_key(self)), separators=(",", ":"))

    def same_task(self, other: TaskTry | None) -> bool:
        """Whether the other is a try (this one or another) of the same task instance."""
        return other is not None and task_key(self) == task_key(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a Job is, and for whom.

    :param deployment: id of the Airflow deployment; two deployments that share a namespace never meet.
    :param fingerprint: `sha256:<hex>` of :func:`fingerprint`.
    :param generation: counter in the lineage, from 1; below a billion, so that names always fit.
    :param number: number of the Job in the lineage, from 1; below a billion, too.
    :param owner: the task try that has the Job made.
    """

    model: str
    deployment: str
    fingerprint: str
    generation: int
    number: int
    data_version: str
    data_digest: str
    owner: TaskTry

    @property
    def lineage(self) -> str:
        """The 16 hex digits that stand for the lineage in names and labels."""
        return lineage_hash(self.deployment, self.fingerprint)

    def __post_init__(self) -> None:
        for name in ("generation", "number"):
            if not 1 <= getattr(self, name) < _COUNTERS_BELOW:
                raise ValueError(f"{name}={getattr(self, name)}: from 1 to {_COUNTERS_BELOW - 1} is allowed")


def fingerprint(spec: TrainingSpec, data_digest: str, run: tuple[str, str]) -> str:
    """Give `sha256:<hex>` of what makes two trainings the same work: model, data, image, program, arguments,
    non-secret environment and the declared code version. Resources, clocks, queue and priority are not part of it: the
    same work on a bigger GPU is the same work.

    An image with a digest counts by the digest alone, from whatever registry it comes. One that is known by a tag alone
    may be another image tomorrow: its work is the run's own. ConfigMaps count by their names: what they hold is not
    seen here.

    :param run: ids of DAG and run.
    """
    work = {
        "model": spec.model,
        "data": data_digest,
        "image": image_identity(spec.image),
        "entrypoint": list(spec.entrypoint),
        "arguments": dict(spec.arguments),
        "environment": dict(spec.environment),
        "environment_from": list(spec.environment_from_config_maps),
        "code_version": spec.code_version,
        **({} if is_pinned(spec.image) else {"run": list(run)}),
    }
    return "sha256:" + _hash(json.dumps(work, sort_keys=True, separators=(",", ":")))


def image_identity(image: str) -> str:
    """Give what tells an image from others: its digest, or the whole reference where a tag is all there is."""
    _, _, digest = image.partition("@")
    return digest or image


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def is_pinned(image: str) -> bool:
    """Whether a reference names an image by its digest, so that it means the same one for ever."""
    return "@" in image


def lineage_hash(deployment: str, fingerprint: str) -> str:
    """Give the 16 hex digits that stand for a lineage in names and labels."""
    return _hash(json.dumps([deployment, fingerprint]))[:16]


def run_hash(deployment: str, dag_id: str, run_id: str) -> str:
    """Give the 16 hex digits that stand for a DAG run in a label; an id may be too long or hold any character."""
    return _hash(json.dumps([deployment, dag_id, run_id]))[:16]


def task_key(owner: TaskTry) -> tuple[str, str, str, int]:
    return owner.dag_id, owner.run_id, owner.task_id, owner.map_index


def task_hash(deployment: str, owner: TaskTry) -> str:
    """Give the 16 hex digits that stand for a task instance, all its tries, in a label."""
    return _hash(json.dumps([deployment, *task_key(owner)]))[:16]


def job_name(identity: Identity, *, indexed: bool = False) -> str:
    """Give `<model>-<lineage>-g<generation>-<number>`: a DNS label of at most 63 characters, with room for the index of
    an Indexed Job's pods. A long model name is cut; the lineage's hash keeps names apart."""
    tail = f"-{identity.lineage}-g{identity.generation}-{identity.number}"
    room = _MAX_NAME - len(tail) - (_INDEX_ROOM if indexed else 0)
    return identity.model[:room].rstrip("-") + tail


def identity_labels(identity: Identity) -> dict[str, str]:
    """Give the labels that Job and pods carry; look-ups select by them."""
    return {
        LABEL_MODEL: identity.model,
        LABEL_DEPLOYMENT: label_value(identity.deployment),
        LABEL_LINEAGE: identity.lineage,
        LABEL_RUN: run_hash(identity.deployment, identity.owner.dag_id, identity.owner.run_id),
        LABEL_TASK: task_hash(identity.deployment, identity.owner),
    }


def label_value(text: str) -> str:
    """Give a label value for any text: the text itself where it is one already, else its hash."""
    if re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", text):
        return text
    return _hash(text)[:16]


def identity_annotations(identity: Identity) -> dict[str, str]:
    """Give the annotations that Job and pods carry: the full values behind the labels' hashes."""
    return {
        ANNOTATION_FINGERPRINT: identity.fingerprint,
        ANNOTATION_GENERATION: str(identity.generation),
        ANNOTATION_DATA_VERSION: identity.data_version,
        ANNOTATION_DATA_DIGEST: identity.data_digest,
    }


def is_ours(identity: Identity, job_labels: Mapping[str, str], job_annotations: Mapping[str, str]) -> bool:
    """Whether a Job's marks say that it is this deployment's, of this work and generation.

    Compared is the full recorded fingerprint, never the live spec: webhooks and queues change that legitimately.
    """
    return (
        job_labels.get(LABEL_DEPLOYMENT) == label_value(identity.deployment)
        and job_labels.get(LABEL_LINEAGE) == identity.lineage
        and job_annotations.get(ANNOTATION_FINGERPRINT) == identity.fingerprint
        and job_annotations.get(ANNOTATION_GENERATION) == str(identity.generation)
    )


def ledger_name(model: str, lineage: str) -> str:
    """Give the name of the ConfigMap that holds a lineage's ledger."""
    return f"{model}-{lineage}-ledger"
