"""Why the API server makes no pod for a Job: the message of the Job's event FailedCreate.

The forms are those of the admission plugins of Kubernetes 1.28 to 1.37, of webhooks and policies, and of OpenShift:
https://github.com/kubernetes/kubernetes/tree/master/plugin/pkg/admission
https://github.com/kubernetes/kubernetes/tree/master/staging/src/k8s.io/apiserver/pkg/admission
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpu_training.core.admission_sayings import REFUSALS
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.sayings import LONGEST, hear, plain, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why no pod is made.

    :param quota: name of the ResourceQuota that stands in the way; empty for any other cause.
    :param asked: of each resource that the quota is exceeded in, as a Kubernetes quantity.
    :param used: likewise, by all pods that the quota counts.
    :param hard: likewise, what the quota allows.
    """

    cause: Cause
    cure: Cure
    summary: str
    remedy: str
    quota: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)
    hard: Mapping[str, str] = field(default_factory=dict)


_MOST_RESOURCES: Final = 32
_CREATING: Final = "Error creating:"
_EXCEEDED: Final = re.compile(
    r"exceeded quota: (?P<quota>[^,\s]{1,253}), requested: (?P<asked>\S{1,2000}), used: (?P<used>\S{1,2000}),"
    r" limited: (?P<hard>\S{1,2000})"
)


def parse_refusal(message: str) -> Refusal | None:
    """Give why no pod is made; None for an empty message. Words that are not known are POD_REFUSED, and waited for."""
    text = message[:LONGEST].strip().removeprefix(_CREATING).strip()
    if not text:
        return None
    exceeded = _EXCEEDED.search(text)
    if exceeded is not None:
        return _of_quota(exceeded)
    heard = hear(REFUSALS, text)
    if heard is None:
        return Refusal(
            cause=Cause.POD_REFUSED,
            cure=Cure.WAITING,
            summary=sentence(f"The API server makes no pod: {plain(text)}"),
            remedy="Change what it names, or ask whoever runs the cluster.",
        )
    return Refusal(cause=heard.cause, cure=heard.cure, summary=heard.summary, remedy=heard.remedy)


def _of_quota(found: re.Match[str]) -> Refusal:
    name = found["quota"]
    asked, used, hard = (_amounts(found[group]) for group in ("asked", "used", "hard"))
    never = [resource for resource in asked if _is_more(asked[resource], hard.get(resource))]
    told = ", ".join(
        f"{resource}: {amount} asked, {used.get(resource, '?')} of {hard.get(resource, '?')} used"
        for resource, amount in list(asked.items())[:4]
    )
    if never:
        first = never[0]
        remedy = (
            f"Ask for no more than {hard[first]} of {first}, or have quota {name} raised by whoever runs the cluster."
        )
    else:
        remedy = (
            f"Wait until others of the namespace have ended, or have quota {name} raised by whoever runs the cluster."
        )
    return Refusal(
        cause=Cause.QUOTA_EXCEEDED,
        cure=Cure.NEVER if never else Cure.WAITING,
        summary=f"Quota {name} {'allows less than is asked for' if never else 'is used up'} ({told}).",
        remedy=remedy,
        quota=name,
        asked=asked,
        used=used,
        hard=hard,
    )


def _amounts(text: str) -> dict[str, str]:
    pairs = (entry.partition("=") for entry in text.split(",")[:_MOST_RESOURCES])
    return {plain(key): plain(value) for key, separator, value in pairs if separator and key.strip() and value.strip()}


def _is_more(asked: str, hard: str | None) -> bool:
    wanted, allowed = parse_quantity(asked), parse_quantity(hard)
    return wanted is not None and allowed is not None and wanted > allowed
