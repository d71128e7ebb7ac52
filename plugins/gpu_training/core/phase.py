"""What a training that has not ended is doing, in a word for machines and a line for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.attempts import Attempt
from gpu_training.core.observation import JobObservation
from gpu_training.core.pods import ContainerState, PodObservation
from gpu_training.core.retry_delay import describe_next_pod


class Phase(StrEnum):
    """What a training that has not ended is doing. Stable names."""

    PENDING = "pending"
    """The Job has no pod yet."""
    SUSPENDED = "suspended"
    QUEUED = "queued"
    """A pod waits for a node."""
    STARTING = "starting"
    """On a node: image, volumes, init containers."""
    RUNNING = "running"
    RETRYING = "retrying"
    """An attempt ended or is being ended; the Job starts the next one after its back-off."""
    FINISHING = "finishing"
    """The end is decided; pods are being ended or the Job's condition is on its way."""
    STOPPING = "stopping"
    """The Job is being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """It has not ended.

    :param detail: one line for the log: why it waits or where it runs.
    """

    phase: Phase
    detail: str


# A gang does what its slowest member does.
_SLOWEST_FIRST: Final = (Phase.RETRYING, Phase.QUEUED, Phase.STARTING, Phase.RUNNING, Phase.FINISHING)


def describe(job: JobObservation | None, pods: Sequence[PodObservation], attempts: Sequence[Attempt]) -> Wait:
    """Give what a training is doing whose Job has no final condition and is not gone.

    :param pods: by age.
    :param attempts: one for each of the pods.
    """
    if job is None:
        return Wait(phase=Phase.PENDING, detail="the Job has not been seen yet")
    if job.deleting:
        return Wait(phase=Phase.STOPPING, detail="the Job is being deleted")
    target = job.condition("FailureTarget") or job.condition("SuccessCriteriaMet")
    if target is not None:
        return Wait(phase=Phase.FINISHING, detail=target.message or target.reason or "its end is decided")
    suspended = job.condition("Suspended")
    if job.suspended or suspended is not None:
        return Wait(phase=Phase.SUSPENDED, detail=(suspended.message if suspended else "") or "the Job is suspended")
    live = [_describe_pod(pod) for pod in pods if not pod.ended and not pod.gone]
    if live:
        slowest = min(live, key=lambda wait: _SLOWEST_FIRST.index(wait.phase))
        return slowest if len(live) == 1 else Wait(phase=slowest.phase, detail=f"{len(live)} pods; {slowest.detail}")
    if pods and pods[-1].phase == "Succeeded":
        return Wait(phase=Phase.FINISHING, detail=f"pod {pods[-1].name} succeeded; the Job's condition is on its way")
    if attempts:
        last = attempts[-1]
        why = last.verdict.summary if last.verdict is not None else f"pod {last.pod} ended"
        due = describe_next_pod(
            None if a.estimated else a.ended_at for a in attempts if a.ended_at is not None and a.verdict is not None
        )
        return Wait(phase=Phase.RETRYING, detail=f"attempt {last.number} ended: {why}{f'; {due}' if due else ''}")
    return Wait(phase=Phase.PENDING, detail="the Job has no pod yet")


def _describe_pod(pod: PodObservation) -> Wait:
    training = pod.training
    where = f"pod {pod.name}" + (f" on {pod.node}" if pod.node else "")
    if training is not None and training.state is ContainerState.TERMINATED:
        said = f"{where}: {training.name} exited with {training.exit_code}{_left_running(pod)}"
        return Wait(phase=Phase.FINISHING, detail=said)
    if pod.deleting or pod.disruption is not None:
        why = f": {pod.disruption.reason} ({pod.disruption.message})" if pod.disruption is not None else ""
        return Wait(phase=Phase.RETRYING, detail=f"{where} is being ended{why}")
    if training is not None and training.state is ContainerState.RUNNING:
        return Wait(phase=Phase.RUNNING, detail=where)
    if not pod.node:
        scheduled = pod.condition("PodScheduled")
        why = scheduled.message if scheduled is not None and not scheduled.holds else ""
        return Wait(phase=Phase.QUEUED, detail=f"{where}: {why or 'waiting for a node'}")
    return Wait(phase=Phase.STARTING, detail=f"{where}: {_starting(pod)}")


def _left_running(pod: PodObservation) -> str:
    """Give what keeps a pod, and so its GPUs, though the training has ended: the kubelet ends native sidecars alone."""
    names = [container.name for container in pod.containers if container.state is ContainerState.RUNNING]
    if not names:
        return ""
    return f"; {', '.join(names)} still runs and keeps the GPUs: make it end too, or an init container that restarts"


def _starting(pod: PodObservation) -> str:
    for container in (*pod.init_containers, *pod.containers):
        if container.state is ContainerState.RUNNING:
            return f"{container.name} runs"
        if container.state is ContainerState.WAITING and container.reason not in ("", "PodInitializing"):
            return f"{container.name}: {container.reason}{': ' + container.message if container.message else ''}"
    return "starting"
