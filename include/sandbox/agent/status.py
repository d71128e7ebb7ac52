"""What a pod's containers are, as the pod status that a kubelet would report. Pure.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sandbox.agent.states import (
    ContainerView,
    Phase,
    PodView,
    Running,
    State,
    Terminated,
    Waiting,
    decide_phase,
    is_ready,
    succeeded,
)

Document = Mapping[str, Any]


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
        "containerStatuses": [_container_status(one, ready=is_ready(one.state)) for one in view.regular],
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


def _conditions(pod: Document, view: PodView, phase: Phase) -> list[dict[str, Any]]:
    names = [one.name for one in view.regular if not is_ready(one.state)]
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
        "started": isinstance(one.state, Running) and one.state.started,
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
