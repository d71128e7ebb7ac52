"""What a pod's containers are, as the pod status that a kubelet would report. Pure.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

Document = Mapping[str, Any]

KILLED = 137
"""Exit code that stands for a container whose end nobody saw."""


class Phase(StrEnum):
    """Phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not running, and why."""

    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Running since a time in nanoseconds of the epoch."""

    started_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """Ended. Times are nanoseconds of the epoch; None: nobody knows."""

    exit_code: int
    reason: str
    message: str = ""
    started_ns: int | None = None
    finished_ns: int | None = None
    container_id: str = ""


State = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """One container of a pod as it is now; `last` is how the run before this one ended."""

    name: str
    image: str
    state: State
    last: Terminated | None = None
    restart_count: int = 0
    image_id: str = ""
    container_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A pod as it is now.

    :param ended: no container will start again, whatever the restart policy says.
    :param failure: reason and message of a pod that failed whatever its containers did, told once it has ended.
    """

    init: tuple[ContainerView, ...]
    regular: tuple[ContainerView, ...]
    started_ns: int
    sandbox_ready: bool = False
    ended: bool = False
    failure: tuple[str, str] | None = None


def format_time(nanoseconds: int) -> str:
    """Return a time as Kubernetes writes it: whole seconds, UTC."""
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> int:
    """Return the nanoseconds of the epoch of a time as Kubernetes writes it."""
    return int(datetime.fromisoformat(text).timestamp()) * 10**9


def build_status(
    pod: Document, view: PodView, *, address: str, before: Sequence[Document], now_ns: int
) -> dict[str, Any]:
    """Return the status document of a pod.

    :param address: of the node; its pods share its network.
    :param before: conditions that were reported last: what did not change keeps its transition time.
    """
    phase = decide_phase(pod, view)
    reason, message = view.failure if view.failure and view.ended else (None, None)
    status: dict[str, Any] = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "startTime": format_time(view.started_ns),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "conditions": _with_times(_conditions(pod, view, phase), before, now_ns),
        "containerStatuses": [_container_status(one, ready=isinstance(one.state, Running)) for one in view.regular],
    }
    if view.sandbox_ready or view.ended:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    if view.init:
        status["initContainerStatuses"] = [_container_status(one, ready=succeeded(one.state)) for one in view.init]
    return status


def build_rejection(reason: str, message: str, *, now_ns: int) -> dict[str, Any]:
    """Return the status of a pod that the node does not take: no conditions, no containers."""
    return {
        "phase": Phase.FAILED,
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": format_time(now_ns),
    }


def succeeded(state: State) -> bool:
    """Whether the container ended with exit code 0."""
    return isinstance(state, Terminated) and state.exit_code == 0


def will_restart(policy: str, exit_code: int) -> bool:
    """Whether a regular container that ended this way runs again under the pod's restart policy."""
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def decide_phase(pod: Document, view: PodView) -> Phase:
    """Return the phase by the kubelet's precedence: how all ended, what waits, what runs.

    It is final only once the pod has ended: nothing of the status changes after a final phase was reported.
    """
    if view.ended:
        return _final_phase(view)
    if any(_end_of(one) is None for one in view.init):
        return Phase.PENDING
    if any(_end_of(one) is None and isinstance(one.state, Waiting) for one in view.regular):
        return Phase.PENDING
    return Phase.RUNNING


def _final_phase(view: PodView) -> Phase:
    if view.failure or not all(succeeded(one.state) for one in (*view.init, *view.regular)):
        return Phase.FAILED
    return Phase.SUCCEEDED


def _end_of(one: ContainerView) -> Terminated | None:
    if isinstance(one.state, Terminated):
        return one.state
    return one.last if isinstance(one.state, Waiting) else None


def settle(view: PodView) -> PodView:
    """Return the view of a pod none of whose containers will start any more.

    What should have run and has not ended is told as killed, with nobody having seen it; what never was to be reached
    (after an init container that failed) stays waiting. As the kubelet's status manager does.
    """
    reached = [index for index, one in enumerate(view.init) if not isinstance(one.state, Waiting) or one.last]
    until = (reached[-1] if reached else 0) + 1
    initialized = not view.init or succeeded(view.init[-1].state)
    return dataclasses.replace(
        view,
        init=tuple(_lost(one) if index < until else one for index, one in enumerate(view.init)),
        regular=tuple(_lost(one) for one in view.regular) if initialized else view.regular,
        sandbox_ready=False,
        ended=True,
    )


def lost_end(container_id: str = "") -> Terminated:
    """Return the end of a container that nobody saw."""
    return Terminated(
        exit_code=KILLED,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
        container_id=container_id,
    )


def _lost(one: ContainerView) -> ContainerView:
    return one if isinstance(one.state, Terminated) else dataclasses.replace(one, state=lost_end())


def _conditions(pod: Document, view: PodView, phase: Phase) -> list[dict[str, Any]]:
    names = [one.name for one in view.regular if not isinstance(one.state, Running)]
    readiness = _condition(
        "ContainersReady",
        not names,
        "ContainersNotReady",
        f"containers with unready status: [{' '.join(names)}]",
    )
    if phase in (Phase.SUCCEEDED, Phase.FAILED):
        word = "PodCompleted" if phase is Phase.SUCCEEDED else "PodFailed"
        readiness = _condition("ContainersReady", False, word, "")
    return [
        _condition("PodReadyToStartContainers", view.sandbox_ready, "PodSandboxNotReady", _sandbox_words(view)),
        _initialized(view, phase),
        _gated(pod, readiness),
        readiness,
        _condition("PodScheduled", True, "", ""),
    ]


def _sandbox_words(view: PodView) -> str:
    return "pod sandbox is not ready" if view.ended else "no pod sandbox exists"


def _condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, Any]:
    told = {} if holds else {"reason": reason, "message": message}
    return {"type": kind, "status": "True" if holds else "False", "reason": None, "message": None} | told


def _initialized(view: PodView, phase: Phase) -> dict[str, Any]:
    started = any(not isinstance(one.state, Waiting) or one.last for one in view.regular)
    names = [one.name for one in view.init if not succeeded(one.state)]
    text = f"containers with incomplete status: [{' '.join(names)}]"
    condition = _condition("Initialized", started or not names, "ContainersNotInitialized", text)
    return condition | ({"reason": "PodCompleted"} if phase is Phase.SUCCEEDED else {})


def _gated(pod: Document, readiness: Document) -> dict[str, Any]:
    """Return the Ready condition: containers ready and every readiness gate of the pod True."""
    met = {c["type"] for c in pod.get("status", {}).get("conditions") or () if c["status"] == "True"}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates") or ()]
    closed = [gate for gate in gates if gate not in met]
    if readiness["status"] != "True" or not closed:
        return {**readiness, "type": "Ready"}
    text = f'the status of pod readiness gate "{closed[0]}" is not "True"'
    return _condition("Ready", False, "ReadinessGatesNotReady", text)


def _with_times(conditions: list[dict[str, Any]], before: Sequence[Document], now_ns: int) -> list[dict[str, Any]]:
    known = {condition["type"]: condition for condition in before}
    for condition in conditions:
        old = known.get(condition["type"], {})
        same = old.get("status") == condition["status"] and "lastTransitionTime" in old
        condition["lastTransitionTime"] = old["lastTransitionTime"] if same else format_time(now_ns)
    return conditions


def _container_status(one: ContainerView, *, ready: bool) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": one.name,
        "image": one.image,
        "imageID": one.image_id,
        "restartCount": one.restart_count,
        "ready": ready,
        "started": isinstance(one.state, Running),
        "state": _state(one.state),
        "lastState": _state(one.last) if one.last else {},
    }
    if one.container_id:
        status["containerID"] = one.container_id
    return status


def _state(state: State) -> dict[str, Any]:
    match state:
        case Running():
            return {"running": {"startedAt": format_time(state.started_ns)}}
        case Waiting():
            told = {"reason": state.reason, "message": state.message}
            return {"waiting": {key: value for key, value in told.items() if value}}
        case Terminated():
            ended: dict[str, Any] = {"exitCode": state.exit_code, "reason": state.reason}
            if state.message:
                ended["message"] = state.message
            for key, value in (("startedAt", state.started_ns), ("finishedAt", state.finished_ns)):
                ended[key] = None if value is None else format_time(value)
            if state.container_id:
                ended["containerID"] = state.container_id
            return {"terminated": ended}
