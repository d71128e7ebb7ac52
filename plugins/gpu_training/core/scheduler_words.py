"""What the scheduler says of a pod that it finds no node for: the message of the condition PodScheduled.

The forms are those of `FitError.Error()` and of the filter plugins, Kubernetes 1.28 to 1.37:
https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import NodeCount
from gpu_training.core.sayings import LONGEST, hear, plain
from gpu_training.core.scheduler_sayings import FILTER_SAYINGS, is_gpu
from gpu_training.core.surroundings import Taint


class Preemption(StrEnum):
    """What the scheduler says of ending other pods for this one. Stable names."""

    NOT_HELPFUL = "not_helpful"
    """No node would take the pod, even if it ran nothing else."""
    NO_VICTIMS = "no_victims"
    """No pod of lower priority holds what is wanted."""
    FOUND_VICTIMS = "found_victims"
    WAITS_FOR_VICTIMS = "waits_for_victims"
    """Pods that make way are still ending on the node that is meant for this one."""
    NOT_ALLOWED = "not_allowed"
    """The pod's preemption policy is Never."""
    NONE = "none"
    """Nothing is said of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerReason(NodeCount):
    """So many nodes were turned down for this reason, the first that the scheduler found of each.

    :param cure: as far as the message tells; nodes and autoscaler that are known say more.
    :param remedy: empty where the words are not known.
    :param said: the scheduler's own words.
    :param resource: of which there is not enough; empty for another reason.
    :param taint: which is not tolerated, where the message names it; its effect is not said.
    """

    cure: Cure = Cure.WAITING
    remedy: str = ""
    said: str = ""
    resource: str = ""
    taint: Taint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerWords:
    """A message of the scheduler.

    :param total: nodes of the cluster; 0 when it has none or the message does not say.
    :param reasons: in the message's order; one that is about the pod as a whole counts all nodes.
    :param node: that is meant for the pod once others have ended there; empty when none is named.
    :param victims: pods that are being ended for this one; 0 when the message does not say.
    :param whole: the message as it is, as one line.
    """

    total: int
    reasons: tuple[SchedulerReason, ...]
    preemption: Preemption
    whole: str
    node: str = ""
    victims: int = 0


_TOTAL: Final = re.compile(r"\s*\d{1,9}/(?P<total>\d{1,9}) nodes are available:?\s*")
_COUNTED: Final = re.compile(r"(?P<count>\d{1,9}) (?P<said>\S.*)", re.DOTALL)
_ENDS: Final = re.compile(
    r"\{[^{}]*\}|\"[^\"]*\"|(?P<next>, (?=\d{1,9} \S))|(?P<last>\.+(?=\s|$))|(?P<post>preemption: )"
)
_INSUFFICIENT: Final = re.compile(r"Insufficient (?P<resource>\S{1,317})")
_TAINT: Final = re.compile(r"node\(s\) had (?:untolerated )?taint \{(?P<key>[^:{}]{1,317}): ?(?P<value>[^{}]{0,63})\}")
_PLACEMENT: Final = re.compile(
    r"potential placement for pod on node (?P<node>[^\s,]{1,253}), preempting (?P<count>\d{1,9}) "
)
_HALVES: Final = (
    ("found a potential placement", Preemption.FOUND_VICTIMS),
    ("found a placement for podgroup", Preemption.FOUND_VICTIMS),
    ("due to a terminating pod on the nominated node", Preemption.WAITS_FOR_VICTIMS),
    ("preemptionPolicy=Never", Preemption.NOT_ALLOWED),
    ("No preemption victims found", Preemption.NO_VICTIMS),
    ("no candidate node for preemption", Preemption.NO_VICTIMS),
    # Named are only nodes that would still not do after all pods of lower priority had gone.
    (" Insufficient ", Preemption.NO_VICTIMS),
    ("Preemption is not helpful", Preemption.NOT_HELPFUL),
)
_NODE: Final = "node.kubernetes.io/"
_PRESSURE: Final = (Cause.NODES_UNDER_PRESSURE, Cure.TRANSIENT, "wait until the node has room again")
_NOT_READY: Final = (Cause.NODES_NOT_READY, Cure.TRANSIENT, "wait until the node is ready")
# Set by Kubernetes itself: https://kubernetes.io/docs/reference/labels-annotations-taints/
_MEANING_OF_TAINT: Final = {
    _NODE + "not-ready": _NOT_READY,
    _NODE + "unreachable": _NOT_READY,
    _NODE + "network-unavailable": _NOT_READY,
    "node.cloudprovider.kubernetes.io/uninitialized": _NOT_READY,
    "karpenter.sh/unregistered": _NOT_READY,
    _NODE + "memory-pressure": _PRESSURE,
    _NODE + "disk-pressure": _PRESSURE,
    _NODE + "pid-pressure": _PRESSURE,
    _NODE + "unschedulable": (Cause.NODES_CORDONED, Cure.WAITING, "wait until the node is uncordoned"),
}


def parse_scheduler(message: str) -> SchedulerWords | None:
    """Give what a message of the scheduler says; None for an empty one.

    Words that are not known are one reason without a cause.
    """
    whole = plain(message, LONGEST)
    if not whole:
        return None
    begins = _TOTAL.match(whole)
    total = int(begins["total"]) if begins else 0
    parts, after = _parted(whole, begins.end() if begins else 0)
    preemption = next((half for words, half in _HALVES if words in after), Preemption.NONE)
    if begins is None:
        parts, preemption = [whole], Preemption.NONE
    placement = _PLACEMENT.search(after)
    return SchedulerWords(
        total=total,
        reasons=tuple(_reason(part, total, preemption) for part in parts),
        preemption=preemption,
        whole=whole,
        node=placement["node"] if placement else "",
        victims=int(placement["count"]) if placement else 0,
    )


def _parted(whole: str, start: int) -> tuple[list[str], str]:
    """Give the reasons, and what is said after them."""
    parts: list[str] = []
    begin, end = start, len(whole)
    for mark in _ENDS.finditer(whole, start):
        if mark["next"]:
            parts.append(whole[begin : mark.start()])
            begin = mark.end()
        elif mark["last"] or mark["post"]:
            end = mark.start()
            break
    parts.append(whole[begin:end])
    return [part for part in map(str.strip, parts) if part], whole[end:]


def _reason(part: str, total: int, preemption: Preemption) -> SchedulerReason:
    counted = _COUNTED.fullmatch(part)
    count, said = (int(counted["count"]), counted["said"]) if counted else (total, part)
    for known in (_short_of, _tainted):
        reason = known(said, count, preemption)
        if reason is not None:
            return reason
    heard = hear(FILTER_SAYINGS, said)
    if heard is None:
        return SchedulerReason(reason=plain(said), count=count, said=plain(said))
    return SchedulerReason(
        reason=heard.summary, count=count, cause=heard.cause, cure=heard.cure, remedy=heard.remedy, said=plain(said)
    )


def _short_of(said: str, count: int, preemption: Preemption) -> SchedulerReason | None:
    found = _INSUFFICIENT.fullmatch(said)
    if found is None:
        return None
    resource, never = found["resource"], preemption is Preemption.NOT_HELPFUL
    if is_gpu(resource):
        cause = Cause.TOO_FEW_GPUS if never else Cause.GPUS_TAKEN
    elif "/" in resource:
        cause = Cause.UNSCHEDULABLE
    else:
        cause = Cause.TOO_LITTLE_CPU_OR_MEMORY if never else Cause.CPU_OR_MEMORY_TAKEN
    return SchedulerReason(
        reason=f"too little {resource}" if never else f"too little {resource} free",
        count=count,
        cause=cause,
        cure=Cure.NEVER if never else Cure.WAITING,
        remedy=f"ask for less {resource}, or for a larger node" if never else f"wait, or ask for less {resource}",
        said=plain(said),
        resource=resource,
    )


def _tainted(said: str, count: int, _: Preemption) -> SchedulerReason | None:
    found = _TAINT.fullmatch(said)
    if found is None:
        return None
    taint = Taint(key=found["key"].strip(), value=found["value"].strip())
    name = f"{taint.key}={taint.value}" if taint.value else taint.key
    cause, cure, remedy = _MEANING_OF_TAINT.get(
        taint.key,
        (Cause.TAINT_NOT_TOLERATED, Cure.WAITING, f"add a toleration of {name} to the training, if it may run there"),
    )
    return SchedulerReason(
        reason=f"taint {name} is not tolerated",
        count=count,
        cause=cause,
        cure=cure,
        remedy=remedy,
        said=plain(said),
        taint=taint,
    )
