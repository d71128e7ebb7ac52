"""Raw Pod documents -> frozen observations: containers, conditions, and what explains a pod's end.

Total: a field that is absent or of another shape reads as unknown, never as an exception and never as success. Times
are seconds since 1970, UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.documents import Document, child, entries, parse_time, text, whole
from gpu_training.core.naming import TRAINING_CONTAINER
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.spec import DEFAULT_GRACE_S

# Set by the Job controller on every pod of an Indexed Job.
_INDEX_ANNOTATION: Final = "batch.kubernetes.io/job-completion-index"


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
    :param is_sidecar: whether it is an init container that runs beside the others, and is ended with them: how it ends
        is no matter of the pod's.
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
    is_sidecar: bool = False

    @property
    def failed(self) -> bool:
        return self.state is ContainerState.TERMINATED and self.exit_code != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition; `holds` tells whether its status is "True"."""

    type: str
    holds: bool
    reason: str = ""
    message: str = ""
    changed_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObservation:
    """One pod, which is one attempt.

    :param index: which part of an Indexed Job it works on; None for any other Job's pod.
    :param gpus: GPUs that it holds while it is on its node.
    :param scheduled_at: when it was bound to a node; None when it was not.
    :param deleting: whether it is being deleted.
    :param told_to_stop_at: when its deletion was asked for; None where it was not.
    :param gone: whether the API server no longer has it; all else is what was seen last.
    """

    uid: str
    name: str
    phase: str = "Unknown"
    reason: str = ""
    message: str = ""
    node: str = ""
    index: int | None = None
    created_at: float | None = None
    scheduled_at: float | None = None
    gpus: int = 0
    deleting: bool = False
    told_to_stop_at: float | None = None
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

    @property
    def last_finished_at(self) -> float | None:
        """When the last of its containers that ended did; None when no end was seen."""
        ends = (container.finished_at for container in (*self.init_containers, *self.containers))
        return max((end for end in ends if end is not None), default=None)

    @property
    def failure(self) -> ContainerObservation | None:
        """The container that explains why the pod failed: an init container, else the training's, else any other.

        Never a sidecar, which the kubelet ends, often with a signal, once all others have ended.
        """
        training = (self.training,) if self.training is not None else ()
        containers = (*self.init_containers, *training, *self.containers)
        return next((c for c in containers if c.failed and not c.is_sidecar), None)

    @property
    def disruption(self) -> Condition | None:
        """The DisruptionTarget condition, if it was set before what explains the end.

        The taint manager marks and deletes pods, too, that had failed by themselves long before.
        """
        found = self.condition("DisruptionTarget")
        if found is None or not found.holds:
            return None
        ended = self.failure or self.training
        if ended is None or ended.finished_at is None or found.changed_at is None:
            return found
        return found if found.changed_at <= ended.finished_at else None

    @property
    def stopped_by(self) -> str:
        """Why it was told to stop before it ended; "" where it was not. A queue that suspends its Job, and a person,
        delete it without any condition."""
        if self.disruption is not None:
            return self.disruption.reason or "no reason"
        ended = self.training.finished_at if self.training is not None else None
        told = self.told_to_stop_at
        return "deleted" if told is not None and (ended is None or told <= ended) else ""

    def condition(self, type_: str) -> Condition | None:
        """Give the condition of a type, whether it holds or not."""
        return next((c for c in self.conditions if c.type == type_), None)


def observe_pod(document: object, *, gone: bool = False) -> PodObservation:
    """Give the observation of a Pod's document.

    :param gone: whether the API server no longer has it.
    """
    metadata, spec, status = child(document, "metadata"), child(document, "spec"), child(document, "status")
    conditions = observe_conditions(status)
    bound = next((c.changed_at for c in conditions if c.type == "PodScheduled" and c.holds), None)
    return PodObservation(
        uid=text(metadata, "uid"),
        name=text(metadata, "name"),
        phase=text(status, "phase") or "Unknown",
        reason=text(status, "reason"),
        message=text(status, "message"),
        node=text(spec, "nodeName"),
        index=_index(text(child(metadata, "annotations"), _INDEX_ANNOTATION)),
        created_at=parse_time(metadata.get("creationTimestamp")),
        scheduled_at=bound or parse_time(status.get("startTime")),
        gpus=_gpus(spec),
        deleting=bool(metadata.get("deletionTimestamp")),
        told_to_stop_at=_told_to_stop_at(metadata),
        gone=gone,
        conditions=conditions,
        init_containers=_containers(status, "initContainerStatuses", _sidecars(spec)),
        containers=_containers(status, "containerStatuses"),
    )


def extra_grace(pods: Iterable[object]) -> float:
    """Give the seconds by which the longest grace period of some pods (documents) is above Kubernetes' own: whoever
    waits for them to go has to wait that much longer."""
    periods = (whole(child(pod, "spec"), "terminationGracePeriodSeconds") or 0 for pod in pods)
    return float(max(0, max(periods, default=0) - DEFAULT_GRACE_S))


def _index(value: str) -> int | None:
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def _told_to_stop_at(metadata: Document) -> float | None:
    # The timestamp is the end of the grace period
    # (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/).
    at = parse_time(metadata.get("deletionTimestamp"))
    return None if at is None else at - (whole(metadata, "deletionGracePeriodSeconds") or 0)


def _gpus(spec: Document) -> int:
    """Give what the scheduler counts: the containers' sum, or an init container's that alone takes more."""
    together = sum(_gpus_of(container) for container in entries(spec, "containers"))
    return max([together, *(_gpus_of(container) for container in entries(spec, "initContainers"))])


def _gpus_of(container: Document) -> int:
    amount = parse_quantity(child(child(container, "resources"), "limits").get(GPU_RESOURCE))
    return max(0, int(amount)) if amount is not None else 0


def _sidecars(spec: Document) -> frozenset[str]:
    containers = entries(spec, "initContainers")
    return frozenset(text(container, "name") for container in containers if container.get("restartPolicy") == "Always")


def _containers(
    status: Document, name: str, sidecars: frozenset[str] = frozenset()
) -> tuple[ContainerObservation, ...]:
    return tuple(_container(entry, sidecars) for entry in entries(status, name))


def _container(entry: Document, sidecars: frozenset[str]) -> ContainerObservation:
    states = child(entry, "state")
    state = next((s for s in ContainerState if isinstance(states.get(s.value), Mapping)), ContainerState.UNKNOWN)
    body = child(states, state.value)
    return ContainerObservation(
        name=text(entry, "name"),
        state=state,
        reason=text(body, "reason"),
        message=text(body, "message"),
        exit_code=whole(body, "exitCode"),
        started_at=parse_time(body.get("startedAt")),
        finished_at=parse_time(body.get("finishedAt")),
        image_id=text(entry, "imageID"),
        restarts=whole(entry, "restartCount") or 0,
        is_sidecar=text(entry, "name") in sidecars,
    )


def observe_conditions(status: Document) -> tuple[Condition, ...]:
    """Give the conditions in a status, of a Pod or of a Job."""
    return tuple(
        Condition(
            type=text(entry, "type"),
            holds=entry.get("status") == "True",
            reason=text(entry, "reason"),
            message=text(entry, "message"),
            changed_at=parse_time(entry.get("lastTransitionTime")),
        )
        for entry in entries(status, "conditions")
    )
