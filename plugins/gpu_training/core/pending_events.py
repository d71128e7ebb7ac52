"""The Events of a namespace by the object that they are about, the newest first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property, lru_cache
from typing import Final

from gpu_training.core.autoscaler_words import parse_autoscaler
from gpu_training.core.sameness import Same
from gpu_training.core.surroundings import Happening

_MOMENTS_KEPT: Final = 8

# What is said at one step of a pod after another. Events are stamped with whole seconds: of two in the same second, the
# later step is the newer.
_STEPS: Final = (
    "FailedScheduling",
    "Scheduled",
    "FailedAttachVolume",
    "SuccessfulAttachVolume",
    "FailedMount",
    "FailedCreatePodSandBox",
    "Pulling",
    "Failed",
    "BackOff",
    "Pulled",
    "Created",
    "Started",
)
_STEP: Final = {reason: step for step, reason in enumerate(_STEPS)}


class Events:
    """Events by the UID of their object: those of another object of the same name are not among them.

    :param known: None when they could not be read.
    """

    def __init__(self, known: tuple[Happening, ...] | None) -> None:
        self.readable = known is not None
        self._known = known or ()

    @cached_property
    def _by_uid(self) -> Mapping[str, list[Happening]]:
        found: dict[str, list[Happening]] = {}
        for event in self._known:
            if event.uid:
                found.setdefault(event.uid, []).append(event)
        return found

    def about(self, uid: str) -> list[Happening]:
        """Give the events about an object, the newest first."""
        return sorted(self._by_uid.get(uid, ()), key=_age, reverse=True)

    def about_claims(self, names: Collection[str], since: float) -> list[Happening]:
        """Give the events about volume claims, the newest first.

        :param names: of the claims, whose UIDs nobody knows here.
        :param since: seconds since 1970; what is older may be of another claim of that name.
        """
        found = (event for event in self._known if event.kind == "PersistentVolumeClaim" and event.name in names)
        return sorted((event for event in found if (last_at(event) or 0.0) >= since), key=_age, reverse=True)

    @cached_property
    def tell_of_autoscaler(self) -> bool:
        """Whether something in the namespace was said by who adds nodes."""
        return any(parse_autoscaler(event.reason, event.message, event.source) for event in self._known)


def _age(event: Happening) -> tuple[float, int, str, str]:
    at = last_at(event)
    return at if at is not None else float("-inf"), _STEP.get(event.reason, -1), event.reason, event.message


def last_at(event: Happening) -> float | None:
    """Give when something happened last, in seconds since 1970."""
    return event.last_at if event.last_at is not None else event.first_at


def events_of(known: tuple[Happening, ...] | None) -> Events:
    """Give the events by object; those sorted before, where they are the same tuple as then."""
    return _events_of(Same(known))


@lru_cache(maxsize=_MOMENTS_KEPT)
def _events_of(known: Same) -> Events:
    return Events(known.value if isinstance(known.value, tuple) else None)
