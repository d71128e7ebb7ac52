"""Raw Job and Pod documents -> frozen observations. The one place that reads status.

Total: a field that is absent or of another shape reads as unknown, never as an exception and never as success. A
condition holds only when its status is the text "True". Times are seconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.spec import GPU_RESOURCE

Document = Mapping[str, Any]


class ContainerState(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerObservation:
    """One container's state.

    :param started_at: None when it never started (Kubernetes writes 1970 for a StartError).
    :param message: termination message, or why it waits.
    """

    name: str
    state: ContainerState
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    finished_at: float | None = None
    image_id: str = ""
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition whose status is "True", or, for pods, one that is not (`holds` tells)."""

    type: str
    holds: bool
    reason: str = ""
    message: str = ""
    changed_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """One pod, which is one attempt.

    :param gpus: GPUs that its containers hold by their limits.
    :param scheduled_at: when it was bound to a node; None when it was not.
    :param deleting: whether it is being deleted.
    :param gone: whether the API server no longer has it; all else is what was seen last.
    """

    uid: str
    name: str
    phase: str = "Unknown"
    reason: str = ""
    message: str = ""
    node: str = ""
    created_at: float | None = None
    scheduled_at: float | None = None
    gpus: int = 0
    deleting: bool = False
    gone: bool = False
    conditions: tuple[Condition, ...] = ()
    init_containers: tuple[ContainerObservation, ...] = ()
    containers: tuple[ContainerObservation, ...] = ()

    @property
    def training(self) -> ContainerObservation | None:
        """The training container; None until the kubelet has reported it."""
        return next((c for c in self.containers if c.name == TRAINING_CONTAINER), None)

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)

    @property
    def disruption(self) -> Condition | None:
        """The DisruptionTarget condition, if it was set before the training container ended: a taint marks pods that
        had ended by themselves, too (SEMANTICS, section 2)."""
        found = self.condition("DisruptionTarget")
        if found is None or not found.holds:
            return None
        ended = self.training.finished_at if self.training else None
        if ended is not None and found.changed_at is not None and found.changed_at > ended:
            return None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """One Job.

    :param conditions: those that hold.
    """

    uid: str
    name: str
    namespace: str
    created_at: float | None = None
    started_at: float | None = None
    deleting: bool = False
    suspended: bool = False
    backoff_limit: int | None = None
    active: int = 0
    failed: int = 0
    succeeded: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    def condition(self, type_: str) -> Condition | None:
        """Give the condition of a type if it holds."""
        return next((c for c in self.conditions if c.type == type_), None)

    @property
    def ended(self) -> bool:
        return self.condition("Complete") is not None or self.condition("Failed") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of a training now.

    :param job: as it was last seen; None when it never was.
    :param pods: by age; those that are gone as they were last seen.
    :param gone: whether the API server confirmed, by UID, that there is no such Job any more.
    """

    job: JobObservation | None
    pods: tuple[PodObservation, ...] = ()
    gone: bool = False


def observe(
    job: Document | None, pods: Iterable[Document], *, gone_pods: Iterable[Document] = (), gone: bool = False
) -> Observation:
    """Give the observation of a Job's documents.

    :param job: the Job as last seen, or None.
    :param pods: its live pods, in any order.
    :param gone_pods: pods that the API server no longer has, as they were last seen.
    :param gone: whether the Job itself is confirmed to be gone.
    """
    seen: dict[str, PodObservation] = {}
    for documents, is_gone in ((gone_pods, True), (pods, False)):
        for document in documents:
            pod = observe_pod(document, gone=is_gone)
            seen[pod.uid] = pod
    return Observation(
        job=observe_job(job) if job is not None else None,
        pods=tuple(sorted(seen.values(), key=_age)),
        gone=gone,
    )


def _age(pod: PodObservation) -> tuple[float, str]:
    return (pod.created_at if pod.created_at is not None else float("inf"), pod.name)


def observe_job(document: Document) -> JobObservation:
    metadata, spec, status = _map(document, "metadata"), _map(document, "spec"), _map(document, "status")
    return JobObservation(
        uid=_text(metadata, "uid"),
        name=_text(metadata, "name"),
        namespace=_text(metadata, "namespace"),
        created_at=parse_time(metadata.get("creationTimestamp")),
        started_at=parse_time(status.get("startTime")),
        deleting=bool(metadata.get("deletionTimestamp")),
        suspended=spec.get("suspend") is True,
        backoff_limit=_whole(spec.get("backoffLimit")),
        active=_whole(status.get("active")) or 0,
        failed=_whole(status.get("failed")) or 0,
        succeeded=_whole(status.get("succeeded")) or 0,
        labels=_texts(metadata.get("labels")),
        annotations=_texts(metadata.get("annotations")),
        conditions=tuple(c for c in _conditions(status) if c.holds),
    )


def observe_pod(document: Document, *, gone: bool = False) -> PodObservation:
    metadata, spec, status = _map(document, "metadata"), _map(document, "spec"), _map(document, "status")
    conditions = _conditions(status)
    scheduled = next((c for c in conditions if c.type == "PodScheduled" and c.holds), None)
    return PodObservation(
        uid=_text(metadata, "uid"),
        name=_text(metadata, "name"),
        phase=_text(status, "phase") or "Unknown",
        reason=_text(status, "reason"),
        message=_text(status, "message"),
        node=_text(spec, "nodeName"),
        created_at=parse_time(metadata.get("creationTimestamp")),
        scheduled_at=scheduled.changed_at if scheduled else parse_time(status.get("startTime")),
        gpus=_gpus(spec),
        deleting=bool(metadata.get("deletionTimestamp")),
        gone=gone,
        conditions=conditions,
        init_containers=_containers(status, "initContainerStatuses"),
        containers=_containers(status, "containerStatuses"),
    )


def parse_time(value: object) -> float | None:
    """Give seconds since 1970 for an RFC 3339 text; None for anything else and for 1970 itself, which Kubernetes writes
    for a container that never started."""
    if isinstance(value, datetime):
        return value.timestamp() or None
    if not isinstance(value, str):
        return None
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (parsed.timestamp() or None) if parsed.tzinfo is not None else None


def _gpus(spec: Document) -> int:
    total = 0
    for container in _list(spec, "containers"):
        amount = _map(_map(container, "resources"), "limits").get(GPU_RESOURCE)
        quantity = parse_quantity(str(amount)) if amount is not None else None
        total += int(quantity) if quantity is not None else 0
    return total


def _containers(status: Document, name: str) -> tuple[ContainerObservation, ...]:
    return tuple(_container(entry) for entry in _list(status, name))


def _container(entry: Document) -> ContainerObservation:
    states = _map(entry, "state")
    state = next((s for s in ContainerState if isinstance(states.get(s.value), Mapping)), ContainerState.UNKNOWN)
    body = _map(states, state.value)
    return ContainerObservation(
        name=_text(entry, "name"),
        state=state,
        reason=_text(body, "reason"),
        message=_text(body, "message"),
        exit_code=_whole(body.get("exitCode")),
        started_at=parse_time(body.get("startedAt")),
        finished_at=parse_time(body.get("finishedAt")),
        image_id=_text(entry, "imageID"),
        restarts=_whole(entry.get("restartCount")) or 0,
    )


def _conditions(status: Document) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=_text(entry, "type"),
            holds=entry.get("status") == "True",
            reason=_text(entry, "reason"),
            message=_text(entry, "message"),
            changed_at=parse_time(entry.get("lastTransitionTime")),
        )
        for entry in _list(status, "conditions")
    )


def _map(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def _list(document: Document, name: str) -> list[Document]:
    value = document.get(name)
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, (list, tuple)) else []


def _text(document: Document, name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, Mapping) else {}


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
