"""Whether nodes may be added for a pod that waits, and what the autoscaler says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpu_training.core.autoscaler_words import AutoscalerWords, ScalingState, parse_autoscaler
from gpu_training.core.pending_events import last_at
from gpu_training.core.pending_view import View
from gpu_training.core.pods import PodObservation
from gpu_training.core.surroundings import Autoscaler

SILENT_S: Final = 60.0
"""Both autoscalers look at pending pods every 10 s or more often, and say of each what comes of it."""

_STALE_S: Final = 15 * 60.0
"""After so long, the cluster-autoscaler itself gives up on a node that has not come (`--max-node-provision-time`). What
still holds is said again every few minutes."""

_NAMES: Final = {Autoscaler.CLUSTER_AUTOSCALER: "the cluster-autoscaler", Autoscaler.KARPENTER: "Karpenter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What may come of new nodes.

    :param said: what the autoscaler last said of the pod; None when it said nothing.
    :param hopeless: nobody will add a node that takes the pod.
    :param clause: a sentence about it; empty when there is nothing to say.
    """

    said: AutoscalerWords | None
    hopeless: bool
    clause: str

    @property
    def state(self) -> ScalingState | None:
        return self.said.state if self.said is not None else None


def growth_of(pod: PodObservation, view: View) -> Growth:
    """Give what may come of new nodes for a pod without one."""
    said = next(_said(pod, view), None)
    if said is not None:
        return Growth(said=said, hopeless=said.state is ScalingState.NOT_HELPFUL, clause=_clause(said, view))
    match view.around.autoscaler:
        case Autoscaler.NONE:
            return Growth(said=None, hopeless=True, clause="No autoscaler is there to add nodes.")
        case Autoscaler.UNKNOWN:
            heard = not view.events.readable or view.events.tell_of_autoscaler
            silent = not heard and view.older_than(pod.created_at, SILENT_S)
            clause = "No autoscaler has said that it would add a node." if silent else ""
            return Growth(said=None, hopeless=silent, clause=clause)
        case _:
            return Growth(said=None, hopeless=False, clause=f"{_name(view)} has not said yet whether it adds a node.")


def _said(pod: PodObservation, view: View) -> Iterator[AutoscalerWords]:
    for event in view.events.about(pod.uid):
        words = parse_autoscaler(event.reason, event.message, event.source)
        if words is None:
            continue
        if not view.older_than(last_at(event), _STALE_S):
            yield words


def _name(view: View) -> str:
    name = _NAMES.get(view.around.autoscaler, "the autoscaler")
    return name[0].upper() + name[1:]


def _clause(said: AutoscalerWords, view: View) -> str:
    match said.state:
        case ScalingState.SCALING_UP:
            return f"{_name(view)} is adding a node: {said.why}"
        case ScalingState.AT_MAXIMUM:
            return f"{_name(view)} may add no more nodes: {said.why}"
        case ScalingState.FAILED:
            return f"{_name(view)} tried to add a node and got none: {said.why}"
        case ScalingState.NOT_HELPFUL:
            return f"{_name(view)} has no kind of node that would take it: {said.why}"
