"""What a pod and its containers are at a moment, and what a pod's phase is by that. Pure.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
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
    """Running since a time in nanoseconds of the epoch.

    :param started: its startup probe, if it has one, says that it has started; `ready` likewise.
    """

    started_ns: int
    started: bool = True
    ready: bool = True


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


def is_ready(state: State) -> bool:
    """Whether the container runs and is ready."""
    return isinstance(state, Running) and state.ready


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
