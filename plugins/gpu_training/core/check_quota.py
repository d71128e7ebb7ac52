"""What a namespace's quotas and limits leave for one pod of a training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpu_training.core.check_up import Check, State
from gpu_training.core.look_ups import Answer, LookUp
from gpu_training.core.pending_cause import Cause
from gpu_training.core.quantity import parse_quantity
from gpu_training.core.resources import Resources
from gpu_training.core.surroundings import Limit, Quota
from gpu_training.core.trial import Trial, TrialEnd

_COUNTED: Final = ("pods", "count/pods", "count/jobs.batch")
_SHORT: Final = ("cpu", "memory", "ephemeral-storage")
"""Resources whose requests a quota may name without `requests.` in front.

https://kubernetes.io/docs/concepts/policy/resource-quotas/#compute-resource-quota
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one quota has of one resource, and what a training asks of it; the texts are Kubernetes quantities."""

    quota: str
    resource: str
    hard: str
    used: str
    asked: str

    @property
    def never(self) -> bool:
        """Whether the whole quota is too small."""
        return _amount(self.asked) > _amount(self.hard)

    @property
    def full(self) -> bool:
        return _amount(self.used) + _amount(self.asked) > _amount(self.hard)

    def __str__(self) -> str:
        return f"{self.resource} of quota {self.quota!r}: asked for {self.asked}, used {self.used} of {self.hard}"


def _amount(text: str) -> Fraction:
    amount = parse_quantity(text)
    return amount if amount is not None else Fraction(0)


def asked_of_quota(resources: Resources) -> dict[str, str]:
    """Give what one training asks of a quota, by the names that quotas have."""
    asked = dict.fromkeys(_COUNTED, "1")
    for name, amount in resources.requests.items():
        asked[f"requests.{name}"] = amount
        if name in _SHORT:
            asked[name] = amount
    return asked | {f"limits.{name}": amount for name, amount in resources.limits.items()}


def shares_of(quotas: Iterable[Quota], asked: Mapping[str, str]) -> tuple[Share, ...]:
    """Give what the quotas say of each thing that is asked for."""
    return tuple(
        Share(quota=quota.name, resource=name, hard=hard, used=quota.used.get(name, "0"), asked=asked[name])
        for quota in quotas
        for name, hard in sorted(quota.hard.items())
        if name in asked and parse_quantity(hard) is not None
    )


def check_quota(look_up: LookUp, quotas: Iterable[Quota], resources: Resources, trial: Trial, *, subject: str) -> Check:
    """Tell whether the quotas of the namespace leave room for one pod now.

    The server's own word goes first: a quota may count certain pods only.

    :param look_up: how the list of quotas was answered.
    """

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="quota", subject=subject, state=state, said=said, remedy=remedy)

    refusal = trial.refusal
    shares = shares_of(quotas, asked_of_quota(resources))
    short = [] if trial.accepts_pod else [share for share in shares if share.full]
    if never := [share for share in short if share.never]:
        said = f"a quota is smaller than one training: {_listed(never)}"
        return check(State.BROKEN, said, "have whoever administers the namespace raise the quota, or ask for less")
    if short:
        said = f"nothing is left of a quota for one more training: {_listed(short)}"
        return check(State.BROKEN, said, "wait until others in the namespace have ended, or have the quota raised")
    if refusal is not None and refusal.cause in (Cause.QUOTA_EXCEEDED, Cause.QUOTA_NEEDS_RESOURCES):
        return check(State.BROKEN, refusal.summary, refusal.remedy)
    if look_up.found:
        return check(State.OK, f"is enough: {_listed(shares)}" if shares else "none bounds what a training asks for")
    if trial.accepts_pod:
        return check(State.OK, "the API server accepts one more training; how much is left may not be read")
    why = "may not be read by this account" if look_up.answer is Answer.FORBIDDEN else f"was not read: {look_up.said}"
    return check(State.UNKNOWN, why, "let the account list resourcequotas, or create pods in a dry run")


def _listed(shares: Iterable[Share]) -> str:
    return "; ".join(map(str, shares))


def check_limits(
    look_up: LookUp, limits: Iterable[Limit], resources: Resources, trial: Trial, *, subject: str
) -> Check:
    """Tell whether a training asks for more, or for less, than the namespace's LimitRanges allow a single pod.

    :param look_up: how the list of LimitRanges was answered.
    """

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="limit-range", subject=subject, state=state, said=said, remedy=remedy)

    refusal = trial.refusal
    faults = [] if trial.accepts_pod else [fault for limit in limits for fault in _faults(limit, resources)]
    if faults:
        said = f"a training is outside of what one pod may ask for: {'; '.join(faults)}"
        return check(
            State.BROKEN, said, "change training.resources in the model's file, or have the LimitRange changed"
        )
    if refusal is not None and refusal.cause is Cause.LIMIT_RANGE:
        return check(State.BROKEN, refusal.summary, refusal.remedy)
    if trial.accepts_pod:
        return check(State.OK, "the API server accepts a pod that asks for this much")
    if look_up.found:
        return check(State.OK, "no LimitRange forbids what a training asks for")
    why = "may not be read by this account" if look_up.answer is Answer.FORBIDDEN else f"was not read: {look_up.said}"
    return check(State.UNKNOWN, why, "let the account list limitranges, or create pods in a dry run")


def _faults(limit: Limit, resources: Resources) -> list[str]:
    if limit.kind not in ("Container", "Pod"):
        return []
    above = [
        f"{name} {resources.limits[name]} is above the maximum {most} of LimitRange {limit.name!r}"
        for name, most in sorted(limit.maximum.items())
        if name in resources.limits and _amount(resources.limits[name]) > _amount(most)
    ]
    below = [
        f"{name} {resources.requests[name]} is below the minimum {least} of LimitRange {limit.name!r}"
        for name, least in sorted(limit.minimum.items())
        if name in resources.requests and _amount(resources.requests[name]) < _amount(least)
    ]
    return above + below


def pod_security(trial: Trial, *, subject: str) -> Check:
    """Tell whether the namespace's Pod Security level admits the pods of a training."""

    def check(state: State, said: str, remedy: str = "") -> Check:
        return Check(name="pod-security", subject=subject, state=state, said=said, remedy=remedy)

    refusal = trial.refusal
    if refusal is not None and refusal.cause is Cause.POD_SECURITY:
        return check(State.BROKEN, refusal.summary, refusal.remedy)
    if trial.accepts_pod:
        return check(State.OK, "admits the training's pods")
    if trial.end is TrialEnd.REFUSED:
        return check(State.UNKNOWN, "was not told: the pod was refused for something else", "see dry-run")
    return check(State.UNKNOWN, "only a dry run of a pod tells it", "see dry-run")
