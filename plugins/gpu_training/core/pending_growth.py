"""Whether nodes may be added for a pod that waits, and what the autoscaler says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from gpu_training.core.autoscaler_words import AutoscalerWords, ScalingState, parse_autoscaler
from gpu_training.core.pending_cause import Cure
from gpu_training.core.pending_events import last_at
from gpu_training.core.pending_view import View
from gpu_training.core.pods import PodObservation
from gpu_training.core.surroundings import Autoscaler, Happening

UNFOUND_S: Final = 30.0
"""An autoscaler that was looked for and not found has so long to speak of a pod. Not each leaves what is looked for;
those there are look at pending pods every 10 s or more often, and say of each what comes of it."""

UNKNOWN_S: Final = 180.0
"""One that could not be looked for has so long."""

INSISTS_S: Final = 60.0
"""So long has an autoscaler to say that it can not help: between two looks at what it has, one may be wrong."""

_STALE_S: Final = 15 * 60.0
"""After so long, the cluster-autoscaler itself gives up on a node that has not come (`--max-node-provision-time`). What
still holds is said again every few minutes."""

_NAMES: Final = {Autoscaler.CLUSTER_AUTOSCALER: "the cluster-autoscaler", Autoscaler.KARPENTER: "Karpenter"}
# What says nothing of a node that is on its way already.
_ADDS_NONE: Final = (ScalingState.NOT_HELPFUL, ScalingState.UNKNOWN)

_Heard = tuple[AutoscalerWords, Happening]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What may come of new nodes.

    :param said: what the autoscaler says of the pod; None when it says nothing.
    :param hopeless: nobody will add a node that takes the pod.
    :param clause: a sentence about it; empty when there is nothing to say.
    :param ending: a sentence about when it will be hopeless; empty when it is, or never becomes so by itself.
    """

    said: AutoscalerWords | None
    hopeless: bool
    clause: str
    ending: str = ""

    @property
    def state(self) -> ScalingState | None:
        return self.said.state if self.said is not None else None

    def fate(self, *, lost: bool) -> tuple[Cure, str]:
        """Give whether waiting cures what only another node would, and a sentence about when that shows.

        :param lost: whether no node that is there may become one that takes the pod.
        """
        if not lost:
            return Cure.WAITING, ""
        return (Cure.NEVER, "") if self.hopeless else (Cure.WAITING, self.ending)


def growth_of(pod: PodObservation, view: View) -> Growth:
    """Give what may come of new nodes for a pod without one."""
    heard = list(_heard(pod, view))
    if heard:
        said = _decisive(heard)
        refuses = said.state is ScalingState.NOT_HELPFUL
        hopeless = refuses and _insists(heard)
        ending = f"If it says so for {INSISTS_S:.0f} s, the run ends." if refuses and not hopeless else ""
        return Growth(said=said, hopeless=hopeless, clause=_clause(said, view), ending=ending)
    match view.around.autoscaler:
        case Autoscaler.NONE:
            return _of_silence(pod, view, UNFOUND_S, "No autoscaler was found.", "No autoscaler was found.")
        case Autoscaler.UNKNOWN:
            return _of_silence(pod, view, UNKNOWN_S, "", "No autoscaler has said that it would add a node.")
        case _:
            return Growth(said=None, hopeless=False, clause=f"{_name(view)} has not said yet whether it adds a node.")


def _of_silence(pod: PodObservation, view: View, patience: float, clause: str, at_last: str) -> Growth:
    """Give what comes of an autoscaler that nobody knows of: it may be there all the same, and be heard."""
    if not view.events.readable or view.events.tell_of_autoscaler:
        return Growth(said=None, hopeless=False, clause=clause)
    if view.older_than(pod.created_at, patience):
        return Growth(said=None, hopeless=True, clause=at_last)
    ending = f"If no autoscaler answers within {patience:.0f} s, the run ends."
    return Growth(said=None, hopeless=False, clause=clause, ending=ending)


def _heard(pod: PodObservation, view: View) -> Iterator[_Heard]:
    """Give what was said of a pod, the newest first."""
    for event in view.events.about(pod.uid):
        words = parse_autoscaler(event.reason, event.message, event.source)
        if words is not None and not view.older_than(last_at(event), _STALE_S):
            yield words, event


def _decisive(heard: Sequence[_Heard]) -> AutoscalerWords:
    """Give what counts: the newest, unless a node is on its way. Then the next look may find that no more is needed, or
    none that helps."""
    newest = heard[0][0]
    firm = next((words for words, _ in heard if words.state not in _ADDS_NONE), None)
    on_its_way = firm is not None and firm.state is ScalingState.SCALING_UP
    return firm if firm is not None and on_its_way and newest.state in _ADDS_NONE else newest


def _insists(heard: Sequence[_Heard]) -> bool:
    """Whether an autoscaler has said for long enough, and nothing else since, that it can not help."""
    refusals = [event for _, event in takewhile(lambda each: each[0].state is ScalingState.NOT_HELPFUL, heard)]
    before = [last_at(event) or 0.0 for _, event in heard[len(refusals) :]]
    begun = min(((event.first_at or last_at(event) or 0.0) for event in refusals), default=0.0)
    until = max((last_at(event) or 0.0 for event in refusals), default=0.0)
    return begun > 0 and until - max([begun, *before]) >= INSISTS_S


def _name(view: View) -> str:
    name = _NAMES.get(view.around.autoscaler, "the autoscaler")
    return name[0].upper() + name[1:]


def _clause(said: AutoscalerWords, view: View) -> str:
    match said.state:
        case ScalingState.SCALING_UP:
            return f"{_name(view)} is adding a node: {said.why}"
        case ScalingState.AT_MAXIMUM:
            return f"{_name(view)} may add no more nodes: {said.why}"
        case ScalingState.UNKNOWN:
            return f"{_name(view)} has added no node: {said.why}"
        case ScalingState.FAILED:
            return f"{_name(view)} tried to add a node and got none: {said.why}"
        case ScalingState.NOT_HELPFUL:
            return f"{_name(view)} has no kind of node that would take it: {said.why}"
