"""What Kueue says of a training's Workload: the conditions of its status. Kueue 0.9 to 0.19.

https://github.com/kubernetes-sigs/kueue/tree/main/pkg
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.queue_sayings import DEACTIVATIONS, EVICTIONS, REFUSALS
from gpu_training.core.sayings import LONGEST, Heard, hear, plain, sentence
from gpu_training.core.surroundings import QueueCondition, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWords:
    """What the queue says.

    :param admitted: it lets the training begin; cause is then WAITING, for something else.
    """

    cause: Cause
    cure: Cure
    summary: str
    remedy: str
    admitted: bool = False


_Conditions = Mapping[str, QueueCondition]

_SHORT: Final = re.compile(
    r"insufficient unused quota (?:in cohort )?for (?P<resource>[^\s,]{1,317}) in flavor (?P<flavor>[^\s,]{1,253}), "
    r"(?P<more>[^\s,]{1,40}) more needed"
    r"|borrowing limit for (?P<borrowed>[^\s,]{1,317}) in flavor (?P<lender>[^\s,]{1,253}) exceeded"
)
_BARRED: Final = re.compile(
    r"insufficient quota for [^\s,]{1,317} in flavor (?P<small>[^\s,]{1,253})"
    r"|untolerated taint .{1,400}? in flavor (?P<tainted>[^\s,;]{1,253})"
    r"|flavor (?P<other>[^\s,]{1,253}) (?:doesn't match node affinity|not found)"
    r"|Flavor \"(?P<flat>[^\"]{1,253})\" (?:does not|supports only|information missing)"
)
_PREEMPTING: Final = re.compile(r"Pending the preemption of (?P<count>\d{1,9}) workload")
_PODSETS: Final = "; couldn't assign flavors to pod set "
_MOST_SHORTS: Final = 4


def parse_queue(workload: Workload) -> QueueWords | None:
    """Give what the queue says of a workload; None when it says nothing, or when the work has ended."""
    conditions = {condition.type: condition for condition in workload.conditions}
    if _holds(conditions, "Finished"):
        return None
    evicted = conditions.get("Evicted")
    if not workload.active or (_holds(conditions, "Evicted") and evicted and evicted.reason.startswith("Deactivated")):
        return _deactivated(workload, conditions)
    if _holds(conditions, "Admitted"):
        return QueueWords(
            cause=Cause.WAITING,
            cure=Cure.WAITING,
            summary=f"Queue {plain(workload.queue)} has admitted the training.",
            remedy="",
            admitted=True,
        )
    if _holds(conditions, "QuotaReserved"):
        return QueueWords(
            cause=Cause.QUEUED,
            cure=Cure.WAITING,
            summary=f"Queue {plain(workload.queue)} has kept room for the training; admission checks are not done yet.",
            remedy="Wait; `kubectl describe workload` shows each check, and whoever runs the queue can tell more.",
        )
    return _queued(workload, conditions)


def _holds(conditions: _Conditions, kind: str) -> bool:
    return kind in conditions and conditions[kind].holds


def _deactivated(workload: Workload, conditions: _Conditions) -> QueueWords:
    evicted = conditions.get("Evicted")
    said = f"{evicted.reason} {evicted.message}" if evicted else ""
    heard = hear(DEACTIVATIONS, said) or Heard(
        cause=Cause.QUEUE_DEACTIVATED,
        cure=Cure.NEVER,
        summary="Somebody has put the training out of its queue.",
        remedy="Ask whoever did; it queues again once `active` of its Workload is true.",
    )
    return QueueWords(cause=heard.cause, cure=heard.cure, summary=heard.summary, remedy=heard.remedy)


def _queued(workload: Workload, conditions: _Conditions) -> QueueWords | None:
    reserved = conditions.get("QuotaReserved")
    said = reserved.message[:LONGEST] if reserved else ""
    context = {"queue": plain(workload.queue), "where": _where(workload), "short": _short(said)}
    if _holds(conditions, "Evicted"):
        evicted = conditions["Evicted"]
        preempted = conditions.get("Preempted")
        words = f"{evicted.reason} {evicted.message} {preempted.message if preempted else ''}"
        heard = hear(EVICTIONS, words, context)
        if heard is not None:
            return _words(heard)
    if not said.strip():
        return None
    for podset in said.split(_PODSETS):
        heard = hear(REFUSALS, podset, context) if not _may_fit(podset) else None
        if heard is not None:
            return _words(heard)
    preempting = _PREEMPTING.search(said)
    more = f" Others make way for it: {preempting['count']}." if preempting else ""
    summary = sentence(f"The training waits in {context['where']}{context['short'] or ': ' + plain(said)}") + more
    return QueueWords(
        cause=Cause.QUEUED,
        cure=Cure.WAITING,
        summary=summary,
        remedy="Wait until others of the queue have ended, or have the queue's quota raised.",
    )


def _may_fit(said: str) -> bool:
    """Whether some flavor has too little for now only."""
    short = {found["flavor"] or found["lender"] for found in _SHORT.finditer(said)}
    barred = {flavor for found in _BARRED.finditer(said) for flavor in found.groupdict().values() if flavor}
    return bool(short - barred)


def _words(heard: Heard) -> QueueWords:
    return QueueWords(cause=heard.cause, cure=heard.cure, summary=heard.summary, remedy=heard.remedy)


def _where(workload: Workload) -> str:
    position = f" at position {workload.position + 1}" if workload.position is not None else ""
    return f"queue {plain(workload.queue)}{position}"


def _short(said: str) -> str:
    """Give what the queue has too little of, as the end of a sentence; empty when it does not say."""
    told = []
    for found in _SHORT.finditer(said):
        if found["more"]:
            told.append(f"{found['more']} more {found['resource']} needed in flavor {found['flavor']}")
        else:
            told.append(f"no more {found['borrowed']} may be borrowed in flavor {found['lender']}")
    return ": " + ", ".join(map(plain, told[:_MOST_SHORTS])) if told else ""
