"""Quotas that keep a pod from being made: who uses them, whether there is room by now, and what they alone tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Final

from gpu_training.core.admission_words import Refusal
from gpu_training.core.amount_text import amount_text
from gpu_training.core.nearest_fit import holders_among
from gpu_training.core.pending_cause import Cause, Cure
from gpu_training.core.pending_report import Report
from gpu_training.core.pending_view import View
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import GPU_RESOURCE
from gpu_training.core.sayings import plain
from gpu_training.core.surroundings import Quota

_NOTHING: Final = Fraction(0)
_COUNTS_PODS: Final = ("pods", "count/pods")
_PREFIX: Final = "requests."


def with_quota(report: Report, refusal: Refusal, view: View) -> Report:
    """Give the report of a quota that is exceeded with who uses it, and with what has changed since it was said."""
    if refusal.cause is not Cause.QUOTA_EXCEEDED or report.cure is Cure.NEVER:
        return report
    quota = next((each for each in view.around.quotas or () if each.name == refusal.quota), None)
    if quota is not None and refusal.asked and all(_has_room(quota, *each) for each in refusal.asked.items()):
        return replace(
            report,
            cure=Cure.TRANSIENT,
            summary=f"Quota {quota.name} was used up when the pod was to be made, and has room by now.",
            remedy="Wait: the Job controller tries again by itself, within minutes.",
        )
    if not any(name.endswith(GPU_RESOURCE) for name in refusal.asked) or view.index is None:
        return report
    usage = view.index.usage
    same = [each for each in usage.tenants if each.namespace == view.job.namespace] if usage is not None else []
    return replace(report, holders=holders_among(same, view.job.namespace, view.own))


def _has_room(quota: Quota, resource: str, asked: str) -> bool:
    if resource not in quota.hard or resource not in quota.used:
        return False
    more, used, hard = parse_quantity(asked), parse_quantity(quota.used[resource]), parse_quantity(quota.hard[resource])
    return more is not None and used is not None and hard is not None and used + more <= hard


def of_quotas(view: View) -> Report | None:
    """Give that a quota has no room for a pod, by the quotas alone: where events, which would say so, are hidden."""
    if view.demand is None:
        return None
    for quota in view.around.quotas or ():
        for name in sorted(quota.hard):
            report = _short(quota, name, view.demand.requests)
            if report is not None:
                return report
    return None


def _short(quota: Quota, name: str, requests: Mapping[str, Fraction]) -> Report | None:
    resource = "pods" if name in _COUNTS_PODS else name.removeprefix(_PREFIX)
    asked, hard = requests.get(resource, _NOTHING), parse_quantity(quota.hard[name])
    used = parse_quantity(quota.used.get(name)) or _NOTHING
    if hard is None or asked <= 0 or used + asked <= hard:
        return None
    never = asked > hard
    wanted = amount_text(resource, asked)
    return Report(
        cause=Cause.QUOTA_EXCEEDED,
        cure=Cure.NEVER if never else Cure.WAITING,
        summary=f"Quota {plain(quota.name)} {'allows less than is asked for' if never else 'is used up'} "
        f"({plain(name)}: {wanted} asked, {plain(quota.used.get(name, '0'))} of {plain(quota.hard[name])} used).",
        remedy=("Ask for less" if never else "Wait until others of the namespace have ended")
        + ", or have whoever runs the cluster raise the quota.",
    )
